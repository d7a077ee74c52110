//go:build js && wasm

package main

import (
	"regexp"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/util"
)

// leftOutPrefix is before the names of functions that compiled code has, but not exactly as OPA: it leaves them to the program
// around it, which knows the results of whole numbers, and asks Go for everything else.
const leftOutPrefix = "policysync__exact_"

// leftOut are these functions, each with what tells whether the operands of a call are harmless; nil: none are.
var leftOut = map[string]func(operands []*ast.Term) bool{
	// Other digits where a number is not whole.
	ast.Plus.Name: nil, ast.Minus.Name: nil, ast.Multiply.Name: nil, ast.Divide.Name: nil, ast.Rem.Name: nil,
	ast.Abs.Name: nil, ast.Round.Name: nil, ast.Ceil.Name: nil, ast.Floor.Name: nil, ast.Sum.Name: nil, ast.Product.Name: nil,
	// At most 20 digits; other texts are numbers.
	ast.FormatInt.Name: nil, ast.ToNumber.Name: nil,
	// Letters of another version of Unicode.
	ast.Lower.Name: nil, ast.Upper.Name: nil,
	// Other escapes, sets in no order, and more texts are JSON.
	ast.JSONMarshal.Name: nil, ast.JSONUnmarshal.Name: nil, ast.JSONIsValid.Name: nil, ast.InternalTemplateString.Name: nil,
	// The empty text is none.
	ast.Base64IsValid.Name: nil, ast.Base64Decode.Name: nil, ast.Base64UrlDecode.Name: nil,
	// Addresses of IPv4 within those of IPv6.
	ast.NetCIDRContains.Name: nil, ast.NetCIDROverlap.Name: nil, ast.NetCIDRIntersects.Name: nil,
	// No end, or another result, for the empty text.
	ast.IndexOf.Name:  isTextAt(1, regexp.MustCompile(`.`)),
	ast.Replace.Name:  isTextAt(1, regexp.MustCompile(`.`)),
	ast.ReplaceN.Name: nil,
	// Another dialect, beyond what both have alike.
	ast.RegexMatch.Name: isTextAt(0, plainRegex), ast.RegexMatchDeprecated.Name: isTextAt(0, plainRegex),
	ast.RegexIsValid.Name: nil, ast.RegexFindAllStringSubmatch.Name: nil,
	ast.GlobMatch.Name: isTextAt(0, regexp.MustCompile(`^[A-Za-z0-9*?.:/_@-]*$`)),
}

// plainRegex are expressions of literals, classes, repetitions and groups without flags.
var plainRegex = regexp.MustCompile(`^(?:[A-Za-z0-9 _/:@,.^$|*+\])\[-]|\((?:[^?]|$)|\?|\\[dwsDWS.*+?()|^$/_:@-]|\\\[|\\\])*$`)

// isTextAt tells of operands whether one of them is a constant text that matches.
func isTextAt(index int, plain *regexp.Regexp) func([]*ast.Term) bool {
	return func(operands []*ast.Term) bool {
		if index >= len(operands) {
			return false
		}
		text, ok := operands[index].Value.(ast.String)
		return ok && plain.MatchString(string(text))
	}
}

// leftOutRefs are the functions by their other names.
var leftOutRefs = func() map[string]ast.Ref {
	refs := map[string]ast.Ref{}
	for name := range leftOut {
		refs[name] = leftOutBuiltin(name).Ref()
	}
	refs[ast.Minus.Name] = ast.Ref{ast.DefaultRootDocument, ast.StringTerm(exactPackage), ast.StringTerm("difference")}
	return refs
}()

func leftOutBuiltin(name string) *ast.Builtin {
	other := *ast.BuiltinMap[name]
	other.Name = leftOutPrefix + name
	other.Infix = ""
	return &other
}

// exactCapabilities are OPA's, and the functions that are left out under their other names.
func exactCapabilities() *ast.Capabilities {
	all := ast.CapabilitiesForThisVersion()
	all.Builtins = slices.Clone(all.Builtins)
	for _, name := range util.KeysSorted(leftOut) {
		all.Builtins = append(all.Builtins, leftOutBuiltin(name))
	}
	slices.SortFunc(all.Builtins, func(a, b *ast.Builtin) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// leaveOut gives calls of functions that are left out their other names.
func (x *exact) leaveOut(rule *ast.Rule) {
	rename := func(operator *ast.Term, operands []*ast.Term) {
		name := operator.Value.String()
		if isHarmless, ok := leftOut[name]; ok && (isHarmless == nil || !isHarmless(operands)) {
			operator.Value = leftOutRefs[name].Copy()
		}
	}
	ast.NewGenericVisitor(func(part any) bool {
		switch v := part.(type) {
		case *ast.Expr:
			if terms, ok := v.Terms.([]*ast.Term); ok && v.IsCall() {
				rename(terms[0], terms[1:])
			}
			for _, with := range v.With {
				for _, term := range []*ast.Term{with.Target, with.Value} {
					if _, ok := leftOut[term.Value.String()]; ok {
						x.stay(v.Location, "with replaces a function that is left to Go")
					}
				}
			}
		case ast.Call:
			rename(v[0], v[1:])
		}
		return false
	}).Walk(rule)
}
