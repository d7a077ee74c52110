//go:build js && wasm

package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"syscall/js"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/topdown"
	"github.com/open-policy-agent/opa/v1/util"
)

var resultVar = ast.VarTerm("result")

// query is a compiled query, and the variables of its text by those that the compiler put in their place.
type query struct {
	body  ast.Body
	names map[ast.Var]ast.Var
}

// decide evaluates a path as POST /v1/data does. The result is undefined where the decision is.
func (e *engine) decide(path string, input js.Value) (any, error) {
	asked, err := e.active.query("data/"+path, func() (ast.Body, error) {
		ref, err := refOf(path)
		return ast.NewBody(ast.Equality.Expr(resultVar, ast.NewTerm(ref))), err
	})
	if err != nil {
		return nil, err
	}
	value, err := inputOf(input)
	if err != nil {
		return nil, err
	}
	found, err := e.run(asked.body, value, false)
	if err != nil || len(found) == 0 {
		return js.Undefined(), err
	}
	switch v := found[0][resultVar.Value.(ast.Var)].Value.(type) {
	case ast.Boolean:
		return strconv.FormatBool(bool(v)), nil
	default:
		plain, err := ast.JSON(v)
		if err != nil {
			return nil, err
		}
		return jsonText(plain)
	}
}

// refOf reads a path as OPA's server does: a whole number, 1.0 too, is an index.
func refOf(path string) (ast.Ref, error) {
	ref := ast.Ref{ast.DefaultRootDocument}
	for _, part := range strings.Split(path, "/") {
		if part == "" {
			continue
		}
		if plain, err := url.PathUnescape(part); err == nil {
			part = plain
		}
		if strings.Contains(part, `"`) {
			return nil, fmt.Errorf("invalid ref term '%s'", part)
		}
		if index, ok := util.Atoi64(part); ok {
			ref = append(ref, ast.NumberTerm(json.Number(strconv.FormatInt(index, 10))))
		} else {
			ref = append(ref, ast.StringTerm(part))
		}
	}
	return ref, nil
}

// query evaluates a query that is no path, with all errors of built-in functions, and returns a JSON list of its bindings.
func (e *engine) query(text string, input js.Value, strict bool) (any, error) {
	asked, err := e.active.query("query/"+text, func() (ast.Body, error) {
		body, err := ast.ParseBody(text)
		if err != nil {
			return nil, err
		}
		return body, refuseInQuery(body)
	})
	if err != nil {
		return nil, err
	}
	value, err := inputOf(input)
	if err != nil {
		return nil, err
	}
	found, err := e.run(asked.body, value, strict)
	if err != nil {
		return nil, err
	}
	rows := make([]map[string]any, len(found))
	for i, bindings := range found {
		rows[i] = make(map[string]any, len(bindings))
		for name, term := range bindings {
			if written, ok := asked.names[name]; ok {
				name = written
			}
			if name.IsWildcard() || name.IsGenerated() {
				continue
			}
			if rows[i][string(name)], err = ast.JSON(term.Value); err != nil {
				return nil, err
			}
		}
	}
	return jsonText(rows)
}

// maxQueries bounds the compiled queries that a policy keeps.
const maxQueries = 1000

// query compiles a query once.
func (p *policy) query(key string, parse func() (ast.Body, error)) (*query, error) {
	if asked, hit := p.queries[key]; hit {
		return asked, nil
	}
	parsed, err := parse()
	if err != nil {
		return nil, err
	}
	compiler := p.compiler.QueryCompiler()
	body, err := compiler.Compile(parsed)
	if err != nil {
		return nil, err
	}
	if len(p.queries) >= maxQueries {
		clear(p.queries)
	}
	asked := &query{body: body, names: compiler.RewrittenVars()}
	p.queries[key] = asked
	return asked, nil
}

// inputOf reads the input: JSON text, or undefined for none.
func inputOf(input js.Value) (*ast.Term, error) {
	if input.IsUndefined() {
		return nil, nil
	}
	value, err := ast.ValueFromReader(strings.NewReader(input.String()))
	if err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	return ast.NewTerm(value), nil
}

func (e *engine) run(body ast.Body, input *ast.Term, strict bool) (topdown.QueryResultSet, error) {
	compiler := e.active.compiler
	txn, err := e.store.NewTransaction(e.ctx, storage.TransactionParams{})
	if err != nil {
		return nil, err
	}
	defer e.store.Abort(e.ctx, txn)
	return topdown.NewQuery(body).
		WithCompiler(compiler).
		WithStore(e.store).
		WithTransaction(txn).
		WithInput(input).
		WithSeed(rand.Reader).
		WithTime(time.Now()).
		WithRuntime(runtimeTerm()).
		WithInterQueryBuiltinCache(e.answers).
		WithInterQueryBuiltinValueCache(e.values).
		WithStrictBuiltinErrors(strict).
		Run(e.ctx)
}
