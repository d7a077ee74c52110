//go:build js && wasm

package main

import (
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// A compiled policy reads documents by values; OPA's own evaluator reads the store by paths, where 5 and "5" are one key. And a
// compiled policy visits objects and sets in no order, OPA in sorted order. So a compiled rule gets guards: where the two could
// differ its evaluation fails, and the question goes to Go.

const exactPackage = "policysync__exact"

// Each guard is a rule or a function with two results, which is an error of the evaluation; for everything that is alike it has none.
// Only difference is another thing: compiled code has the difference of sets exactly, but not that of numbers.
const exactModule = `package policysync__exact

key(document, k) := 1 if { is_number(k); is_object(document) }
key(document, k) := 2 if { is_number(k); is_object(document) }
key(document, k) := 1 if { is_string(k); is_array(document) }
key(document, k) := 2 if { is_string(k); is_array(document) }

name(k) := 1 if is_number(k)
name(k) := 2 if is_number(k)

order(values) := 1 if { not is_array(values); count(values) > 1 }
order(values) := 2 if { not is_array(values); count(values) > 1 }

replaced := 1 if { whole := input; not is_object(whole) }
replaced := 2 if { whole := input; not is_object(whole) }

difference(a, b) := a - b if is_set(a)
difference(a, b) := policysync__exact_minus(a, b) if is_number(a)
`

// exactRule is a rule as it is compiled, or the reason why it is not.
type exactRule struct {
	rule   *ast.Rule
	reason string
	numbers
}

// exactly returns what is compiled of a rule.
func (p *policy) exactly(rule *ast.Rule) exactRule {
	if found, ok := p.exact[rule]; ok {
		return found
	}
	x := &exact{compiler: p.compiler}
	cpy := rule.Copy()
	for r := cpy; r != nil; r = r.Else {
		x.uses = usesOf(r)
		bound := varSet{}
		for _, arg := range r.Head.Args {
			bound.addAll(arg)
		}
		r.Body = x.body(r.Body, bound, false)
		x.head(r)
	}
	x.leaveOut(cpy)
	found := exactRule{rule: cpy, reason: x.reason, numbers: x.numbers}
	p.exact[rule] = found
	return found
}

type varSet map[ast.Var]bool

func (s varSet) addAll(part any) {
	for v := range varsOf(part) {
		s[v] = true
	}
}

// varsOf returns the variables of a part, without those of bodies inside it.
func varsOf(part any) ast.VarSet {
	vis := ast.NewVarVisitor().WithParams(ast.VarVisitorParams{SkipClosures: true, SkipRefCallHead: true})
	vis.Walk(part)
	return vis.Vars()
}

func (s varSet) copy() varSet {
	cpy := make(varSet, len(s))
	for v := range s {
		cpy[v] = true
	}
	return cpy
}

type exact struct {
	compiler *ast.Compiler
	reason   string
	count    int
	// uses tells of each variable how often it stands somewhere, and how often in a place where order does not count, or where it
	// does not count how a number is written.
	uses map[ast.Var]use
	numbers
}

type use struct{ all, unordered, computed int }

// unorderedCalls are functions of a list whose result does not depend on its order.
var unorderedCalls = map[string]bool{
	ast.Count.Name: true, ast.Sort.Name: true, ast.Max.Name: true, ast.Min.Name: true,
}

func usesOf(rule *ast.Rule) map[ast.Var]use {
	uses := map[ast.Var]use{}
	ast.WalkVars(rule, func(v ast.Var) bool {
		u := uses[v]
		u.all++
		uses[v] = u
		return false
	})
	ast.WalkExprs(rule, func(e *ast.Expr) bool {
		if e.IsCall() && unorderedCalls[e.Operator().String()] && len(e.Operands()) > 0 {
			if v, ok := e.Operand(0).Value.(ast.Var); ok {
				u := uses[v]
				u.unordered++
				uses[v] = u
			}
		}
		for _, term := range computedOperands(e) {
			if v, ok := term.Value.(ast.Var); ok {
				u := uses[v]
				u.computed++
				uses[v] = u
			}
		}
		return false
	})
	return uses
}

func (x *exact) stay(at *ast.Location, text string) {
	if x.reason == "" {
		x.reason = place(at, text)
	}
}

// body returns a body with guards. bound has the variables that have values before it; isOrdered is true where the order of its
// results counts.
func (x *exact) body(body ast.Body, bound varSet, isOrdered bool) ast.Body {
	bound = bound.copy()
	out := make(ast.Body, 0, len(body))
	for _, e := range body {
		replaced := x.withs(e)
		guards := x.expr(e, bound, isOrdered)
		for _, guard := range guards {
			for _, with := range e.With {
				guard.With = append(guard.With, with.Copy())
			}
		}
		out = append(append(out, replaced...), guards...)
		out = append(out, e)
		if !e.Negated {
			bound.addAll(e)
		}
	}
	for i, e := range out {
		e.Index = i
	}
	return out
}

// expr changes one expression, and returns what is to be put before it.
func (x *exact) expr(e *ast.Expr, bound varSet, isOrdered bool) []*ast.Expr {
	x.constants(e, bound)
	var guards []*ast.Expr
	for _, with := range e.With {
		x.inside(with.Value, bound)
	}
	seen := bound.copy()
	top := func(term *ast.Term) {
		if ref, ok := term.Value.(ast.Ref); ok {
			changed, before := x.ref(e, ref, bound, seen, isOrdered)
			term.Value = changed
			guards = append(guards, before...)
			return
		}
		x.inside(term, bound)
	}
	switch terms := e.Terms.(type) {
	case *ast.Term:
		top(terms)
		switch {
		case !hasBody(terms):
		case e.Negated:
			x.stay(e.Location, "not of a comprehension")
		default:
			// OPA's planner leaves out a value that stands alone, since it is not false; but what stands in it may be an error.
			x.count++
			e.Terms = ast.Equality.Expr(ast.VarTerm(fmt.Sprintf("__exact%d__", x.count)), terms).Terms
		}
	case []*ast.Term:
		if e.IsCall() && isOrdered && e.Operator().String() == ast.WalkBuiltin.Name {
			x.stay(e.Location, "the order of walk counts")
		}
		if e.IsEquality() {
			for i, term := range terms[1:] {
				list, isList := term.Value.(*ast.ArrayComprehension)
				v, isVar := terms[2-i].Value.(ast.Var)
				if isList && isVar && x.uses[v].all == x.uses[v].unordered+1 {
					list.Body = x.body(list.Body, bound, false)
				} else {
					top(term)
				}
			}
			break
		}
		for _, term := range terms[1:] {
			top(term)
		}
		if e.IsCall() && e.Operator().String() == ast.Concat.Name && len(terms) > 2 {
			guards = append(guards, guardOf("order", terms[2]))
		}
	case *ast.Every:
		top(terms.Domain)
		inner := bound.copy()
		if terms.Key != nil {
			inner.addAll(terms.Key)
		}
		inner.addAll(terms.Value)
		terms.Body = x.body(terms.Body, inner, false)
	case *ast.SomeDecl:
	default:
		x.stay(e.Location, "uses and, or, or not { ... }")
	}
	return guards
}

// hasBody is true for a comprehension, and for a value that has one.
func hasBody(term *ast.Term) bool {
	found := false
	ast.WalkClosures(term, func(any) bool {
		found = true
		return true
	})
	return found
}

// inside changes what has bodies of its own within a term that is no reference.
func (x *exact) inside(term *ast.Term, bound varSet) {
	ast.NewGenericVisitor(func(part any) bool {
		switch v := part.(type) {
		case *ast.ArrayComprehension:
			v.Body = x.body(v.Body, bound, true)
			return true
		case *ast.SetComprehension:
			v.Body = x.body(v.Body, bound, false)
			return true
		case *ast.ObjectComprehension:
			v.Body = x.body(v.Body, bound, false)
			return true
		case ast.Ref:
			_, guards := x.ref(nil, v, bound, bound.copy(), false)
			if len(guards) > 0 {
				x.stay(term.Location, "a reference inside a value")
			}
			return true
		}
		return false
	}).Walk(term)
}

// ref guards a reference of an expression. seen are the variables that have values or get them in this expression before.
func (x *exact) ref(e *ast.Expr, ref ast.Ref, bound, seen varSet, isOrdered bool) (ast.Ref, []*ast.Expr) {
	var guards []*ast.Expr
	current := ref
	isData := ref[0].Equal(ast.DefaultRootDocument)
	node := x.compiler.RuleTree.Child(ast.DefaultRootDocument.Value)
	isRule, isDynamic := !isData, false
	iterated := false // a variable of the reference so far gets its value from it
	if v, ok := ref[0].Value.(ast.Var); ok && !isData && !v.Equal(ast.InputRootDocument.Value) && !seen[v] {
		iterated = true
	}
	for p, shift := 1, 0; p < len(ref); p++ {
		term := ref[p]
		_, isVar := term.Value.(ast.Var)
		fresh := varSet{}
		for v := range varsOf(term) {
			if !seen[v] {
				fresh[v] = true
			}
		}
		isIteration := len(fresh) > 0
		isPackage := isData && !isRule && node != nil && len(node.Children) > 0
		if isPackage && isVar && reachesFunction(node, ref[p:]) {
			x.stay(locationOf(e, term), "a variable stands for a name that a function has, too")
		}
		needsKey := isData && !isRule && (isVar && !isIteration || isNumberLike(term))
		needsOrder := isOrdered && isIteration
		if needsKey && isPackage {
			if isDynamic || !isVar {
				x.stay(locationOf(e, term), "a number-like key among packages")
			}
			guards = append(guards, guardOf("name", term))
		} else if needsKey || needsOrder {
			if isPackage || isDynamic {
				x.stay(locationOf(e, term), "a variable stands for a part of a package's path")
			}
			prefix := ast.NewTerm(current[:p-shift].Copy())
			if len(current[:p-shift]) == 1 {
				prefix = current[0]
			}
			if iterated {
				if e == nil || e.Negated {
					x.stay(locationOf(e, term), "an iteration in a negation")
				}
				x.count++
				name := ast.VarTerm(fmt.Sprintf("__exact%d__", x.count))
				guards = append(guards, ast.Equality.Expr(name, prefix))
				current = append(ast.Ref{name}, current[p-shift:]...)
				shift = p - 1
				prefix = name
				iterated = false
			}
			if needsKey {
				guards = append(guards, guardOf("key", prefix, term))
			}
			if needsOrder {
				guards = append(guards, guardOf("order", prefix))
			}
		}
		if isIteration {
			for v := range fresh {
				seen[v] = true
			}
			iterated = true
		}
		if isData && !isRule {
			switch {
			case isVar && isPackage:
				node, isDynamic = nil, true
			case node != nil:
				if node = node.Child(term.Value); node != nil && len(node.Values) > 0 {
					isRule = true
				}
			}
		}
	}
	return current, guards
}

// reachesFunction tells whether a reference from a node on comes upon a function: OPA's planner calls it without arguments.
func reachesFunction(node *ast.TreeNode, rest ast.Ref) bool {
	if len(node.Values) > 0 {
		return len(node.Values[0].Head.Args) > 0
	}
	if len(rest) == 0 {
		return false
	}
	if _, isVar := rest[0].Value.(ast.Var); !isVar {
		child := node.Child(rest[0].Value)
		return child != nil && reachesFunction(child, rest[1:])
	}
	for _, child := range node.Children {
		if reachesFunction(child, rest[1:]) {
			return true
		}
	}
	return false
}

// isNumberLike is true for a constant key that stands for another key or index in OPA's store.
func isNumberLike(term *ast.Term) bool {
	switch v := term.Value.(type) {
	case ast.Number:
		return true
	case ast.String:
		return v != "" && strings.Trim(string(v), "0123456789") == ""
	}
	return false
}

// guardOf is "not data.policysync__exact.name(args)", or without parentheses where it has no arguments.
func guardOf(name string, args ...*ast.Term) *ast.Expr {
	operator := ast.NewTerm(ast.Ref{ast.DefaultRootDocument, ast.StringTerm(exactPackage), ast.StringTerm(name)})
	terms := []*ast.Term{operator}
	for _, arg := range args {
		terms = append(terms, arg.Copy())
	}
	guard := ast.NewExpr(terms)
	if len(args) == 0 {
		guard = ast.NewExpr(operator)
	}
	guard.Negated = true
	return guard
}

func locationOf(e *ast.Expr, term *ast.Term) *ast.Location {
	if e != nil && e.Location != nil {
		return e.Location
	}
	return term.Location
}
