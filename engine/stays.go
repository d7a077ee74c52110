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
	return ""
}

// ruleStays says why one rule keeps all entrypoints that depend on it with Go.
func ruleStays(p *policy, rule *ast.Rule) string {
	if key, ok := integerLikeKey(rule); ok {
		return place(rule.Location, fmt.Sprintf("the rule's name has the number-like key %q", key))
	}
	reason := p.exactly(rule).reason
	eachBuiltin(p.compiler, rule, func(name string, at *ast.Location) {
		if why, ok := withGo[name]; ok && reason == "" {
			reason = place(at, fmt.Sprintf("%s %s", name, why))
		}
	})
	return reason
}

// withGo are built-in functions that compiled policies cannot have, and why.
var withGo = map[string]string{
	ast.HTTPSend.Name:        "needs the network",
	ast.NetLookupIPAddr.Name: "needs the network",
	ast.OPARuntime.Name:      "is about this engine",
}

// integerLikeKey finds a number, or a text that looks like one, in the name of a rule.
func integerLikeKey(rule *ast.Rule) (string, bool) {
	for _, term := range rule.Ref()[1:] {
		switch key := term.Value.(type) {
		case ast.Number:
			return key.String(), true
		case ast.String:
			if key != "" && strings.Trim(string(key), "0123456789-") == "" {
				return string(key), true
			}
		}
	}
	return "", false
}

func place(at *ast.Location, text string) string {
	if at == nil {
		return text
	}
	return fmt.Sprintf("%s:%d: %s", at.File, at.Row, text)
}
