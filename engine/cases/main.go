// Command cases prints OPA's own conformance cases (v1) as one JSON document, so that the suite runs without Go.
// Documents and expected results are JSON texts inside strings: no number loses a digit on the way.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/test/cases"
	"github.com/open-policy-agent/opa/v1/test/cases/testdata"
	"github.com/open-policy-agent/opa/v1/util"
	"github.com/open-policy-agent/opa/v1/version"
)

// packed is one case. A member that the case lacks is left out.
type packed struct {
	Note    string   `json:"note"`
	File    string   `json:"file"`
	Query   string   `json:"query"`
	Modules []string `json:"modules"`
	Data    *string  `json:"data,omitempty"`
	// Input is the input as JSON text; InputTerm is there instead where the input is not JSON (sets, keys that are no strings).
	Input                *string           `json:"input,omitempty"`
	InputTerm            *string           `json:"inputTerm,omitempty"`
	WantResult           *string           `json:"wantResult,omitempty"`
	WantErrorCode        *string           `json:"wantErrorCode,omitempty"`
	WantError            *string           `json:"wantError,omitempty"`
	SortBindings         bool              `json:"sortBindings,omitempty"`
	IgnoreGeneratedVars  bool              `json:"ignoreGeneratedVars,omitempty"`
	StrictError          bool              `json:"strictError,omitempty"`
	ExperimentalKeywords bool              `json:"experimentalKeywords,omitempty"`
	Env                  map[string]string `json:"env,omitempty"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	all := []packed{}
	err := fs.WalkDir(testdata.V1, "v1", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".yaml") {
			return err
		}
		text, err := testdata.V1.ReadFile(name)
		if err != nil {
			return err
		}
		var set cases.Set
		if err := util.Unmarshal(text, &set); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, one := range set.Cases {
			next, err := pack(path.Join(path.Base(path.Dir(name)), path.Base(name)), one)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", name, one.Note, err)
			}
			all = append(all, next)
		}
		return nil
	})
	if err != nil {
		return err
	}
	out, err := text(map[string]any{"opa": version.Version, "cases": all})
	if err != nil {
		return err
	}
	_, err = os.Stdout.WriteString(*out)
	return err
}

func pack(file string, one cases.TestCase) (packed, error) {
	out := packed{
		Note: one.Note, File: file, Query: one.Query, Modules: one.Modules, Env: one.Env,
		WantErrorCode: one.WantErrorCode, WantError: one.WantError,
		SortBindings: one.SortBindings, IgnoreGeneratedVars: one.IgnoreGeneratedVars,
		StrictError: one.StrictError, ExperimentalKeywords: one.ExperimentalKeywords,
	}
	if out.Modules == nil {
		out.Modules = []string{}
	}
	var err error
	if one.Data != nil {
		if out.Data, err = text(*one.Data); err != nil {
			return out, err
		}
	}
	if one.WantResult != nil {
		if out.WantResult, err = text(*one.WantResult); err != nil {
			return out, err
		}
	}
	switch {
	case one.InputTerm != nil:
		term, err := ast.ParseTerm(*one.InputTerm)
		if err != nil {
			return out, err
		}
		if !isJSON(term) {
			out.InputTerm = one.InputTerm
			return out, nil
		}
		value, err := ast.JSON(term.Value)
		if err != nil {
			return out, err
		}
		out.Input, err = text(value)
		return out, err
	case one.Input != nil:
		out.Input, err = text(*one.Input)
	}
	return out, err
}

// isJSON tells whether a term can be written as JSON without becoming another value.
func isJSON(term *ast.Term) bool {
	is := true
	ast.WalkTerms(term, func(t *ast.Term) bool {
		switch v := t.Value.(type) {
		case ast.Null, ast.Boolean, ast.Number, ast.String, *ast.Array:
		case ast.Object:
			v.Foreach(func(key, _ *ast.Term) {
				if _, ok := key.Value.(ast.String); !ok {
					is = false
				}
			})
		default:
			is = false
		}
		return !is
	})
	return is
}

func text(value any) (*string, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	out := strings.TrimSuffix(buffer.String(), "\n")
	return &out, nil
}
