//go:build js && wasm

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// refuseRequest refuses queries that reach built-in functions that are for policies alone. OPA itself refuses calls of
// http.send, but not "with f as http.send". Texts that do not parse are OPA's to refuse.
func refuseRequest(r *http.Request, body []byte) error {
	path := strings.TrimSuffix(r.URL.Path, "/")
	var text string
	switch {
	case path == "/v1/query" && r.Method == http.MethodGet:
		text = r.URL.Query().Get("q")
	case path == "/v1/query" || path == "/v1/compile":
		var asked struct {
			Query string `json:"query"`
		}
		if json.Unmarshal(body, &asked) != nil {
			return nil
		}
		text = asked.Query
	default:
		return nil
	}
	for _, version := range []ast.RegoVersion{ast.RegoV1, ast.RegoV0} {
		query, err := ast.ParseBodyWithOpts(text, ast.ParserOptions{RegoVersion: version})
		if err != nil {
			continue
		}
		if callsHTTPSend(query) {
			return nil
		}
		if err := refuseInQuery(query); err != nil {
			return err
		}
	}
	return nil
}

// refuseInQuery looks at a query as it was written: names of built-in functions are not resolved yet.
func refuseInQuery(query ast.Body) error {
	var found error
	ast.WalkRefs(query, func(ref ast.Ref) bool {
		switch ref.String() {
		case ast.HTTPSend.Name:
			found = fmt.Errorf("unsafe built-in function calls in expression: %s", ast.HTTPSend.Name)
		case ast.NetLookupIPAddr.Name:
			found = errors.New(lookupAdvice)
		}
		return found != nil
	})
	return found
}

// callsHTTPSend tells whether OPA refuses a query by itself, in its own words.
func callsHTTPSend(query ast.Body) bool {
	calls := false
	ast.WalkExprs(query, func(x *ast.Expr) bool {
		calls = calls || x.IsCall() && x.Operator().String() == ast.HTTPSend.Name
		return calls
	})
	return calls
}
