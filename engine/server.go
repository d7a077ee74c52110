//go:build js && wasm

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall/js"

	"github.com/open-policy-agent/opa/v1/logging"
	"github.com/open-policy-agent/opa/v1/plugins"
	"github.com/open-policy-agent/opa/v1/server"
	"github.com/open-policy-agent/opa/v1/server/types"
	"github.com/open-policy-agent/opa/v1/server/writer"
	"github.com/open-policy-agent/opa/v1/storage"
)

// request is one for OPA's REST API.
type request struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
}

type response struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
}

// http answers a request as OPA's own server does.
func (e *engine) http(head string, body js.Value) (any, error) {
	handler, err := e.handler()
	if err != nil {
		return nil, err
	}
	var asked request
	if err := json.Unmarshal([]byte(head), &asked); err != nil {
		return nil, err
	}
	var bytesOfBody []byte
	if !body.IsUndefined() {
		bytesOfBody = bytesFromJS(body)
	}
	r, err := http.NewRequestWithContext(e.ctx, asked.Method, asked.URL, bytes.NewReader(bytesOfBody))
	if err != nil {
		return nil, err
	}
	if err := refuseRequest(r, bytesOfBody); err != nil {
		return refusal(err)
	}
	r.RequestURI = asked.URL
	r.RemoteAddr = "127.0.0.1:0"
	for name, value := range asked.Headers {
		if http.CanonicalHeaderKey(name) == "Host" {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	return answered(w)
}

func refusal(err error) (any, error) {
	w := httptest.NewRecorder()
	writer.Error(w, http.StatusBadRequest, types.NewErrorV1(types.CodeInvalidParameter, "%s", err.Error()))
	return answered(w)
}

// answered is a response as JavaScript reads it.
func answered(w *httptest.ResponseRecorder) (any, error) {
	answer := response{Status: w.Code, Headers: map[string]string{}}
	for name, values := range w.Header() {
		answer.Headers[http.CanonicalHeaderKey(name)] = strings.Join(values, ", ")
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	result := js.Global().Get("Object").New()
	result.Set("head", string(text))
	result.Set("body", bytesToJS(w.Body.Bytes()))
	return result, nil
}

// handler makes OPA's server when it is first needed: it costs half a second, and nobody else needs it.
func (e *engine) handler() (http.Handler, error) {
	if e.server != nil {
		return e.server.Handler, nil
	}
	logger := logging.NewNoOpLogger()
	had := e.systemDocuments()
	store := &withoutPolicies{Store: e.store, isHiding: true}
	manager, err := plugins.New([]byte(`{}`), "embedded", store,
		plugins.Logger(logger), plugins.ConsoleLogger(logger), plugins.Info(runtimeTerm()))
	if err != nil {
		return nil, err
	}
	if err := manager.Init(e.ctx); err != nil {
		return nil, err
	}
	store.isHiding = false
	made, err := server.New().
		WithStore(e.store).
		WithManager(manager).
		WithRuntime(runtimeTerm()).
		WithMetrics(newMetrics()).
		Init(e.ctx)
	if err != nil {
		return nil, err
	}
	if err := e.shareCompiler(had); err != nil {
		return nil, err
	}
	e.server = made
	return made.Handler, nil
}

// withoutPolicies is the store as a manager sees it while it starts: it would parse all modules again, each as the latest
// version of Rego, and compile them. It gets the compiled policy instead.
type withoutPolicies struct {
	storage.Store
	isHiding bool
}

func (s *withoutPolicies) ListPolicies(ctx context.Context, txn storage.Transaction) ([]string, error) {
	if s.isHiding {
		return nil, nil
	}
	return s.Store.ListPolicies(ctx, txn)
}

// versionPath is where the manager writes its version.
var versionPath = storage.Path{"system", "version"}

// systemDocuments tells which of the documents that the manager adds to are there.
func (e *engine) systemDocuments() map[int]bool {
	had := map[int]bool{}
	_ = storage.Txn(e.ctx, e.store, storage.TransactionParams{}, func(txn storage.Transaction) error {
		for depth := 1; depth <= len(versionPath); depth++ {
			_, err := e.store.Read(e.ctx, txn, versionPath[:depth])
			had[depth] = err == nil
		}
		return nil
	})
	return had
}

// shareCompiler hands the active policy to the server's manager, which would compile it again, and removes what the manager
// added to the documents: they are the host's alone.
func (e *engine) shareCompiler(had map[int]bool) error {
	params := storage.WriteParams
	params.Context = storage.NewContext()
	plugins.SetCompilerOnContext(params.Context, e.active.compiler)
	return storage.Txn(e.ctx, e.store, params, func(txn storage.Transaction) error {
		for depth := 1; depth <= len(versionPath); depth++ {
			if !had[depth] {
				return e.store.Write(e.ctx, txn, storage.RemoveOp, versionPath[:depth], nil)
			}
		}
		return nil
	})
}
