//go:build js && wasm

package main

import (
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// OPA takes 1, 1.0 and 1e0 for one number, and prints it as it is written. Compiled code finds no element, member or bit by the
// last two. So constants that are written like that are compiled only where they are compared or computed with.

// numbers tells of a rule which such constant is its value, and which other values it does more with than comparing or computing.
type numbers struct {
	value string
	flows []ast.Ref
}

// comparisons are functions that take numbers for what they are, however they are written.
var comparisons = map[string]bool{
	ast.GreaterThan.Name: true, ast.GreaterThanEq.Name: true, ast.LessThan.Name: true, ast.LessThanEq.Name: true,
	ast.NotEqual.Name: true,
}

// computedOperands are the operands of an expression for which it does not count how they are written: those of comparisons, and of
// functions that are left to the program around compiled code.
func computedOperands(e *ast.Expr) []*ast.Term {
	if !e.IsCall() {
		return nil
	}
	name := e.Operator().String()
	isHarmless, isLeftOut := leftOut[name]
	if !comparisons[name] && !(isLeftOut && isHarmless == nil) {
		return nil
	}
	operands := e.Operands()
	return operands[:min(len(operands), ast.BuiltinMap[name].Decl.Arity())]
}

// constants looks for numbers of one expression that compiled code would take for others.
func (x *exact) constants(e *ast.Expr, bound varSet) {
	for _, with := range e.With {
		x.number(e, with.Value)
	}
	switch terms := e.Terms.(type) {
	case *ast.Term:
		x.number(e, terms)
	case *ast.Every:
		x.number(e, terms.Domain)
	case []*ast.Term:
		if len(computedOperands(e)) > 0 {
			return // all of them: what they give is looked at when it comes
		}
		if e.IsEquality() && (x.isCompared(terms[1], terms[2], bound) || x.isCompared(terms[2], terms[1], bound)) {
			return
		}
		for _, term := range terms[1:] {
			x.number(e, term)
		}
	}
}

// isCompared tells whether one side of an equation, a number or a reference, goes nowhere but into a comparison.
func (x *exact) isCompared(side, other *ast.Term, bound varSet) bool {
	_, isNumber := side.Value.(ast.Number)
	_, isRef := side.Value.(ast.Ref)
	if !isNumber && !isRef {
		return false
	}
	switch other := other.Value.(type) {
	case ast.Var:
		return bound[other] || x.uses[other].all == x.uses[other].computed+1
	case ast.Number, ast.Ref:
		return true
	}
	return false
}

// number notes what a term has of numbers: constants that are written otherwise, and values of rules that may be such ones.
func (x *exact) number(e *ast.Expr, term *ast.Term) {
	eachConstant(term, func(number ast.Number) {
		x.stay(locationOf(e, term), fmt.Sprintf("compiled code may take the number %s for another", number))
	})
	ast.WalkRefs(term, func(ref ast.Ref) bool {
		if ref[0].Equal(ast.DefaultRootDocument) {
			x.flows = append(x.flows, ref)
		}
		return false
	})
}

// head looks at the constants of a rule's head. Its value is no matter as long as others only compare or compute with it.
func (x *exact) head(rule *ast.Rule) {
	whole, isWhole := rule.Head.Value, false
	if whole != nil {
		if number, ok := whole.Value.(ast.Number); ok && isWrittenOtherwise(number) && len(rule.Head.Args) == 0 {
			x.value, isWhole = number.String(), true
		}
	}
	stay := func(number ast.Number) {
		x.stay(rule.Location, fmt.Sprintf("compiled code may take the number %s for another", number))
	}
	if whole != nil && !isWhole {
		eachConstant(whole, stay)
	}
	if rule.Head.Key != nil {
		eachConstant(rule.Head.Key, stay)
	}
	for _, arg := range rule.Head.Args {
		eachConstant(arg, stay)
	}
}

// eachConstant calls found for each number within a term, without bodies, that is written otherwise than a whole number is.
func eachConstant(term *ast.Term, found func(ast.Number)) {
	ast.NewGenericVisitor(func(part any) bool {
		switch part := part.(type) {
		case ast.Body:
			return true
		case ast.Number:
			if isWrittenOtherwise(part) {
				found(part)
			}
		}
		return false
	}).Walk(term)
}

// isWrittenOtherwise is true for numbers with an exponent, whole ones with a fraction, and negative zero.
func isWrittenOtherwise(number ast.Number) bool {
	text := number.String()
	whole, fraction, hasFraction := strings.Cut(text, ".")
	return strings.ContainsAny(text, "eE") || whole == "-0" && strings.Trim(fraction, "0") == "" ||
		hasFraction && strings.Trim(fraction, "0") == ""
}

// flowReason says why rules keep an entrypoint with Go, one of which has a number as its value that another one does more with than
// comparing or computing; empty if none does.
func (p *policy) flowReason(rules []*ast.Rule) string {
	for _, rule := range rules {
		value := p.exactly(rule).value
		if value == "" {
			continue
		}
		path := rule.Ref().GroundPrefix()
		for _, other := range rules {
			for _, ref := range p.exactly(other).flows {
				if ref.HasPrefix(path) || path.HasPrefix(ref.ConstantPrefix()) {
					return place(other.Location, fmt.Sprintf("compiled code may take the number %s of %v for another", value, path))
				}
			}
		}
	}
	return ""
}
