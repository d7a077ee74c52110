//go:build js && wasm

package main

import (
	"context"
	"fmt"
	"syscall/js"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/server"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/topdown/cache"
)

// engine is one OPA: a store, the active policy, and one that is prepared. Goroutines take turns only where they wait, so
// its fields need no locks.
type engine struct {
	ctx   context.Context
	host  js.Value
	turns *turns
	store storage.Store
	// parsed keeps modules between policies, so that an unchanged one is parsed once.
	parsed parseCache
	// compiled is the policy that was compiled last: a check is followed by the activation of the same policy.
	compiled *policy
	active   *policy
	prepared *change
	// attempt counts prepare, commit and abort: what was prepared before the last of them is void.
	attempt int
	server  *server.Server
	values  cache.InterQueryValueCache
	answers cache.InterQueryCache
}

func newEngine(host js.Value) *engine {
	e := &engine{
		ctx:    context.Background(),
		host:   host,
		turns:  newTurns(host),
		store:  inmem.NewWithOpts(inmem.OptRoundTripOnWrite(false)),
		parsed: parseCache{},
		active: &policy{compiler: ast.NewCompiler(), queries: map[string]*query{}},
	}
	e.active.compiler.Compile(map[string]*ast.Module{})
	config, _ := cache.ParseCachingConfig(nil) // the defaults are valid
	e.answers = cache.NewInterQueryCache(config)
	e.values = cache.NewInterQueryValueCache(e.ctx, config)
	provideHTTPSend(host)
	return e
}

// export adds the calls. Every call has a function as its last argument, which gets the result: (error text, result).
// Only callBuiltin returns its result itself, since compiled policies wait for it.
func (e *engine) export(calls js.Value) {
	export := func(name string, run func(a []js.Value) (any, error)) {
		calls.Set(name, js.FuncOf(func(_ js.Value, a []js.Value) any {
			done := a[len(a)-1]
			go func() {
				result, err := guarded(func() (any, error) { return run(a) })
				if err != nil {
					done.Invoke(problemsText(err))
					return
				}
				done.Invoke(js.Null(), result)
			}()
			return nil
		}))
	}
	export("parse", func(a []js.Value) (any, error) { return e.parse(a[0].String(), a[1].Int()) })
	export("check", func(a []js.Value) (any, error) { return e.check(a[0].String(), a[1].String()) })
	export("prepare", func(a []js.Value) (any, error) { return e.prepare(a[0].String(), a[1].String(), a[2].String()) })
	export("commit", func([]js.Value) (any, error) { return nil, e.commit() })
	export("abort", func([]js.Value) (any, error) { e.abort(); return nil, nil })
	export("write", func(a []js.Value) (any, error) { return nil, e.write(a[0].String()) })
	export("compile", func(a []js.Value) (any, error) { return e.compile(a[0].String(), a[1].String()) })
	export("http", func(a []js.Value) (any, error) { return e.http(a[0].String(), a[1]) })
	export("decide", func(a []js.Value) (any, error) { return e.decide(a[0].String(), a[1]) })
	export("query", func(a []js.Value) (any, error) { return e.query(a[0].String(), a[1], a[2].Bool()) })
	b := builtinCalls{values: e.values}
	calls.Set("callBuiltin", js.FuncOf(func(_ js.Value, a []js.Value) any {
		result, err := guarded(func() (any, error) { return b.call(e.ctx, a[0].String(), a[1].String(), a[2].Bool()) })
		if err != nil {
			return "E" + problemsText(err)
		}
		return result
	}))
}

// guarded runs a call; a panic is an error of this call alone.
func guarded(run func() (any, error)) (result any, err error) {
	defer func() {
		if found := recover(); found != nil {
			result, err = nil, fmt.Errorf("OPA failed: %v", found)
		}
	}()
	return run()
}
