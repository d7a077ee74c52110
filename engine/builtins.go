//go:build js && wasm

package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/metrics"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/topdown/builtins"
	"github.com/open-policy-agent/opa/v1/topdown/cache"
	"github.com/open-policy-agent/opa/v1/version"
)

// builtinCalls runs the built-in functions that a compiled policy lacks.
type builtinCalls struct {
	context *topdown.BuiltinContext
	values  cache.InterQueryValueCache
}

// call runs one function. args is a list, as JSON or (with sets in it) as a Rego term; the result is "R" and a Rego term,
// and empty where the function is undefined. isFresh begins an evaluation: within one, time and random numbers stay the same.
func (b *builtinCalls) call(ctx context.Context, name, args string, isFresh bool) (any, error) {
	function := topdown.GetBuiltin(name)
	if function == nil || name == ast.HTTPSend.Name || name == ast.NetLookupIPAddr.Name {
		return nil, fmt.Errorf("there is no built-in function %s for compiled policies", name)
	}
	operands, err := operandsOf(args)
	if err != nil {
		return nil, err
	}
	if isFresh || b.context == nil {
		b.context = b.newContext(ctx)
	}
	var with topdown.BuiltinContext
	if declared := ast.BuiltinMap[name]; declared == nil || !declared.CanSkipBctx {
		with = *b.context
	} // else nothing, as in OPA's evaluation: with the context of others, strings.any_prefix_match of OPA 1.22 uses a cache that is wrong
	var result *ast.Term
	err = function(with, operands, func(term *ast.Term) error {
		result = term
		return nil
	})
	var halt topdown.Halt
	if errors.As(err, &halt) {
		return nil, halt.Err
	}
	if err != nil || result == nil {
		return "", nil // an error of a built-in function is undefined
	}
	return "R" + result.String(), nil
}

func (b *builtinCalls) newContext(ctx context.Context) *topdown.BuiltinContext {
	return &topdown.BuiltinContext{
		Context:                     ctx,
		Metrics:                     metrics.New(),
		Seed:                        rand.Reader,
		Cancel:                      topdown.NewCancel(),
		Time:                        ast.NumberTerm(json.Number(strconv.FormatInt(time.Now().UnixNano(), 10))),
		Cache:                       make(builtins.Cache),
		InterQueryBuiltinValueCache: b.values,
		Runtime:                     runtimeTerm(),
		Capabilities:                ast.CapabilitiesForThisVersion(),
	}
}

func operandsOf(args string) ([]*ast.Term, error) {
	value, err := ast.ValueFromReader(strings.NewReader(args))
	if err != nil {
		term, err := ast.ParseTerm(args)
		if err != nil {
			return nil, fmt.Errorf("arguments: %w", err)
		}
		value = term.Value
	}
	list, ok := value.(*ast.Array)
	if !ok {
		return nil, errors.New("arguments: a list is needed")
	}
	operands := make([]*ast.Term, list.Len())
	for i := range operands {
		operands[i] = list.Elem(i)
	}
	return operands, nil
}

// runtimeTerm is what opa.runtime returns: neither environment nor configuration of the host are in it.
func runtimeTerm() *ast.Term {
	return ast.ObjectTerm(
		ast.Item(ast.StringTerm("commit"), ast.StringTerm(version.Vcs)),
		ast.Item(ast.StringTerm("version"), ast.StringTerm(version.Version)),
	)
}
