//go:build js && wasm

package main

import (
	"encoding/json"
	"errors"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/topdown"
)

// problem is one reason of a refusal, as JavaScript reads it.
type problem struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	File    string `json:"file,omitempty"`
	Row     int    `json:"row,omitempty"`
}

// problemsText is a JSON list of the problems of an error.
func problemsText(err error) string {
	text, failed := json.Marshal(problemsOf(err))
	if failed != nil {
		return `[{"message":"an error that cannot be printed"}]`
	}
	return string(text)
}

func problemsOf(err error) []problem {
	var list ast.Errors
	var compiling *ast.Error
	var evaluating *topdown.Error
	var stored *storage.Error
	switch {
	case errors.As(err, &evaluating):
		return []problem{placed(problem{Code: evaluating.Code, Message: evaluating.Message}, evaluating.Location)}
	case errors.As(err, &list):
		found := make([]problem, len(list))
		for i, one := range list {
			found[i] = placed(problem{Code: one.Code, Message: one.Message}, one.Location)
		}
		return found
	case errors.As(err, &compiling):
		return []problem{placed(problem{Code: compiling.Code, Message: compiling.Message}, compiling.Location)}
	case errors.As(err, &stored):
		return []problem{{Code: stored.Code, Message: err.Error()}}
	default:
		return []problem{{Message: err.Error()}}
	}
}

func placed(p problem, at *ast.Location) problem {
	if at != nil {
		p.File, p.Row = at.File, at.Row
	}
	return p
}
