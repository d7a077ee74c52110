//go:build js && wasm

package main

import (
	"fmt"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// staysWithGo says why an entrypoint is not compiled; empty if it is. A compiled policy must never answer differently from
// OPA: what would is evaluated by OPA's own code.
func staysWithGo(p *policy, path string, ref ast.Ref, rules []*ast.Rule) string {
	if len(p.compiler.GetRules(ref)) == 0 {
		return "no rule or package has this path"
	}
	for _, part := range strings.Split(path, "/") {
		if part == "" || strings.Contains(part, "%") {
			return "the path has empty or escaped parts"
		}
	}
	for _, term := range ref[1:] {
		if _, ok := term.Value.(ast.String); !ok {
			return "the path has a number"
		}
	}
	for _, rule := range rules {
		if reason := ruleStays(p, rule); reason != "" {
			return reason
		}
	}
	return p.flowReason(rules)
}

// ruleStays says why one rule keeps all entrypoints that depend on it with Go.
func ruleStays(p *policy, rule *ast.Rule) string {
	if reason := keyReason(rule); reason != "" {
		return place(rule.Location, reason)
	}
	if isLarge(rule) {
		return place(rule.Location, fmt.Sprintf("the rule has more than %d values: as a document, it would be compiled", mostTerms))
	}
	reason := p.exactly(rule).reason
	eachBuiltin(p.compiler, rule, func(name string, at *ast.Location) {
		if why, ok := withGo[name]; ok && reason == "" {
			reason = place(at, fmt.Sprintf("%s %s", name, why))
		}
	})
	return reason
}

// mostTerms bounds what is compiled of one rule: OPA's compiler takes time and memory by the square of it, 3 GB for a constant
// of 140 KB.
const mostTerms = 10_000

func isLarge(rule *ast.Rule) bool {
	left := mostTerms
	ast.NewGenericVisitor(func(part any) bool {
		if _, ok := part.(*ast.Term); ok {
			left--
		}
		return left < 0
	}).Walk(rule)
	return left < 0
}

// withGo are built-in functions that compiled policies cannot have, and why.
var withGo = map[string]string{
	ast.HTTPSend.Name:        "needs the network",
	ast.NetLookupIPAddr.Name: "needs the network",
	ast.OPARuntime.Name:      "is about this engine",
}

// keyReason says of a rule whose name has a number, a text that looks like one, or a constant that is no text, why it is not
// compiled: OPA's store takes the first two for the same, and below the last compiled code has no object where nothing is defined.
func keyReason(rule *ast.Rule) string {
	for _, term := range rule.Ref()[1:] {
		switch key := term.Value.(type) {
		case ast.Var, ast.Ref:
		case ast.String:
			if key != "" && strings.Trim(string(key), "0123456789-") == "" {
				return fmt.Sprintf("the rule's name has the number-like key %q", string(key))
			}
		case ast.Number:
			return fmt.Sprintf("the rule's name has the number-like key %q", key.String())
		default:
			return fmt.Sprintf("the rule's name has the key %v, which is no text", key)
		}
	}
	return ""
}

func place(at *ast.Location, text string) string {
	if at == nil {
		return text
	}
	return fmt.Sprintf("%s:%d: %s", at.File, at.Row, text)
}
