//go:build js && wasm

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall/js"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// closeNetwork keeps all of Go's own code off the network, whatever the host's globals offer.
func closeNetwork() {
	if transport, ok := http.DefaultTransport.(*http.Transport); ok {
		transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("the embedded engine has no network")
		}
	}
}

func hasFetch(host js.Value) bool {
	return host.Get("fetch").Type() == js.TypeFunction
}

// provideHTTPSend lets OPA's own http.send ask the host for each request; without a host for it, it is an error.
func provideHTTPSend(host js.Value) {
	send := topdown.GetBuiltin(ast.HTTPSend.Name)
	topdown.RegisterBuiltinFunc(ast.HTTPSend.Name,
		func(bctx topdown.BuiltinContext, operands []*ast.Term, iter func(*ast.Term) error) error {
			if !hasFetch(host) {
				return topdown.Halt{Err: errors.New(httpSendAdvice)}
			}
			bctx.RoundTripper = func(special *http.Transport) http.RoundTripper {
				return hostTransport{host: host, special: special}
			}
			return send(bctx, operands, iter)
		})
}

// hostTransport sends requests through the host.
type hostTransport struct {
	host js.Value
	// special is there when the policy asks for TLS settings or a Unix socket.
	special *http.Transport
}

type hostRequest struct {
	Method  string      `json:"method"`
	URL     string      `json:"url"`
	Headers http.Header `json:"headers"`
}

type hostResponse struct {
	Status  int         `json:"status"`
	Headers http.Header `json:"headers"`
}

type hostAnswer struct {
	response *http.Response
	err      error
}

func (t hostTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.special != nil {
		return nil, errors.New("http.send: TLS settings and Unix sockets are not available in the embedded engine")
	}
	var body []byte
	if r.Body != nil {
		defer r.Body.Close()
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	headers := r.Header.Clone()
	if r.Host != "" {
		headers.Set("Host", r.Host)
	}
	text, err := json.Marshal(hostRequest{Method: r.Method, URL: r.URL.String(), Headers: headers})
	if err != nil {
		return nil, err
	}
	answered := make(chan hostAnswer, 1)
	done := js.FuncOf(func(_ js.Value, a []js.Value) any {
		answered <- answerOf(r, a)
		return nil
	})
	cancel := t.host.Call("fetch", string(text), bytesToJS(body), done)
	select {
	case answer := <-answered:
		done.Release()
		return answer.response, answer.err
	case <-r.Context().Done():
		cancel.Invoke() // the host calls done no more
		done.Release()
		return nil, r.Context().Err()
	}
}

// answerOf reads what the host gives: an error text, or null, a response and its body.
func answerOf(r *http.Request, a []js.Value) hostAnswer {
	if !a[0].IsNull() {
		return hostAnswer{err: errors.New(a[0].String())}
	}
	var head hostResponse
	if err := json.Unmarshal([]byte(a[1].String()), &head); err != nil {
		return hostAnswer{err: err}
	}
	body := bytesFromJS(a[2])
	return hostAnswer{response: &http.Response{
		Status:        http.StatusText(head.Status),
		StatusCode:    head.Status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        head.Headers,
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       r,
	}}
}

func bytesToJS(b []byte) js.Value {
	u := js.Global().Get("Uint8Array").New(len(b))
	js.CopyBytesToJS(u, b)
	return u
}

func bytesFromJS(v js.Value) []byte {
	b := make([]byte, v.Length())
	js.CopyBytesToGo(b, v)
	return b
}
