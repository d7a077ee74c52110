//go:build js && wasm

package main

import (
	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/util"
)

const (
	httpSendAdvice = "http.send is not available in the embedded engine: set SYNC_EMBEDDED_ENGINE_HTTP_SEND=true, or use the inline engine (SYNC_ENGINE=inline)"
	lookupAdvice   = "net.lookup_ip_addr is not available in the embedded engine: use the inline engine (SYNC_ENGINE=inline)"
)

// refuseBuiltins returns one error for each place where a policy uses a built-in function that this engine cannot run.
func refuseBuiltins(c *ast.Compiler, withFetch bool) error {
	refused := map[string]string{ast.NetLookupIPAddr.Name: lookupAdvice}
	if !withFetch {
		refused[ast.HTTPSend.Name] = httpSendAdvice
	}
	if c.Required == nil {
		return nil
	}
	needed := false
	for _, b := range c.Required.Builtins {
		if _, ok := refused[b.Name]; ok {
			needed = true
		}
	}
	if !needed {
		return nil
	}
	var errs ast.Errors
	for _, name := range util.KeysSorted(c.Modules) {
		eachBuiltin(c, c.Modules[name], func(builtin string, at *ast.Location) {
			if advice, ok := refused[builtin]; ok {
				errs = append(errs, ast.NewError(ast.TypeErr, at, "%s", advice))
			}
		})
	}
	if len(errs) == 0 {
		return nil // named, but only as what is replaced (with http.send as ...)
	}
	return errs
}

// eachBuiltin calls found for each use of a built-in function in a part of a compiled policy: a call, or a value of with.
func eachBuiltin(c *ast.Compiler, part any, found func(name string, at *ast.Location)) {
	vis := ast.NewGenericVisitor(func(x any) bool {
		switch x := x.(type) {
		case *ast.Expr:
			if x.IsCall() {
				if name := x.Operator().String(); isBuiltin(name) {
					found(name, x.Location)
				}
			}
			for _, with := range x.With {
				if ref, ok := with.Value.Value.(ast.Ref); ok && isBuiltin(ref.String()) {
					found(ref.String(), with.Location)
				}
			}
		case ast.Call:
			if name := x[0].String(); isBuiltin(name) {
				found(name, x[0].Location)
			}
		}
		return false
	})
	vis.Walk(part)
}

func isBuiltin(name string) bool {
	_, ok := ast.BuiltinMap[name]
	return ok
}
