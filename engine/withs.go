//go:build js && wasm

package main

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// withs returns the guards of what an expression replaces, which look at the input as it is before. Compiled code puts a part into
// an input that is no object without making it one.
func (x *exact) withs(e *ast.Expr) []*ast.Expr {
	isWhole, isPart := false, false
	for _, with := range e.With {
		target, ok := with.Target.Value.(ast.Ref)
		switch {
		case !ok:
		case target[0].Equal(ast.InputRootDocument):
			isWhole = isWhole || len(target) == 1
			isPart = isPart || len(target) > 1
		case target[0].Equal(ast.DefaultRootDocument) && len(x.compiler.GetRulesExact(target)) == 0:
			x.stay(e.Location, "documents are replaced by with")
		}
	}
	// OPA's planner takes the first targets for those of documents.
	slices.SortStableFunc(e.With, func(a, b *ast.With) int { return x.withRank(a) - x.withRank(b) })
	if !isPart {
		return nil
	}
	if isWhole {
		x.stay(e.Location, "with replaces the input and a part of it")
	}
	return []*ast.Expr{guardOf("replaced")}
}

// withRank is 0 for documents, and 1 for functions.
func (x *exact) withRank(with *ast.With) int {
	target, ok := with.Target.Value.(ast.Ref)
	if !ok {
		return 1
	}
	if target[0].Equal(ast.InputRootDocument) {
		return 0
	}
	if target[0].Equal(ast.DefaultRootDocument) {
		isFunction := slices.ContainsFunc(x.compiler.GetRulesExact(target), func(r *ast.Rule) bool { return len(r.Head.Args) > 0 })
		if !isFunction {
			return 0
		}
	}
	return 1
}
