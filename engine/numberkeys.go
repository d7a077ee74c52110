//go:build js && wasm

package main

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/open-policy-agent/opa/v1/ast"
)

// OPA finds the member "12" of a document by the number 12 (data.users[input.id]), a compiled policy does not. So an entrypoint
// stays with Go while a document that it looks into by a key that may be a number has members with such names. The other way
// round, a constant text that is a number is an index of an array for OPA alone.

// openRef is a reference to documents whose key at the end of a path is no constant text; more keys may follow.
type openRef struct {
	path []string
	keys ast.Ref
}

func (r openRef) String() string {
	return fmt.Sprintf("%q %v", r.path, []*ast.Term(r.keys))
}

// openRefOf returns the open one of a reference; false if all its keys are constant texts, or a rule stands there.
func (d *ruleDependencies) openRefOf(ref ast.Ref) (openRef, bool) {
	if !ref.HasPrefix(ast.DefaultRootRef) {
		return openRef{}, false
	}
	node := d.compiler.RuleTree.Child(ast.DefaultRootDocument.Value)
	path := []string{}
	for i, term := range ref[1:] {
		key, ok := term.Value.(ast.String)
		if !ok || isNumber(string(key)) {
			return openRef{path: path, keys: ref[i+1:]}, true
		}
		path = append(path, string(key))
		if node != nil {
			if node = node.Child(key); node != nil && len(node.Values) > 0 {
				return openRef{}, false
			}
		}
	}
	return openRef{}, false
}

// hasNumberKey tells whether an object that is looked into by an open key has a member whose name is a number.
func hasNumberKey(node any, keys ast.Ref) bool {
	if allTexts(keys) {
		return false
	}
	key, isText := keys[0].Value.(ast.String)
	switch node := node.(type) {
	case map[string]any:
		if isText {
			return hasNumberKey(node[string(key)], keys[1:])
		}
		deeper := !allTexts(keys[1:])
		for name, value := range node {
			if isNumber(name) || deeper && hasNumberKey(value, keys[1:]) {
				return true
			}
		}
	case []any:
		if isText {
			return isNumber(string(key))
		}
		for _, value := range node {
			if hasNumberKey(value, keys[1:]) {
				return true
			}
		}
	}
	return false
}

func allTexts(keys ast.Ref) bool {
	for _, key := range keys {
		if text, ok := key.Value.(ast.String); !ok || isNumber(string(text)) {
			return false
		}
	}
	return true
}

// isNumber tells whether a text is a number as JSON writes it.
func isNumber(text string) bool {
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') || !json.Valid([]byte(text)) {
		return false
	}
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}
