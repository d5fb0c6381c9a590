package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFile bounds the file, so that a mistyped path to something huge fails at once.
const maxFile = 4 << 20

// parseDocument returns the root of the only document, nil for an empty file. A syntax error is recorded.
func (s *source) parseDocument(data []byte) (root ast.Node, ok bool) {
	file, err := parseYAML(shield(data))
	if err != nil {
		s.addSyntax(err)
		return nil, false
	}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.NullType {
			continue
		}
		if root != nil {
			s.add("", placeOf(doc.Body), wrong("a second document begins here", "keep all settings in one document, without ---"))
			return nil, false
		}
		root = doc.Body
	}
	return root, true
}

// parseYAML turns a panic of the parser into an error: a file must never bring the proxy down on a reload.
func parseYAML(data []byte) (file *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("not readable as YAML: %v", r)
		}
	}()
	return parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
}

func (s *source) addSyntax(err error) {
	const mend = "mend the YAML: spaces (not tabs) indent, a blank follows each colon, texts with : # { [ & * % @ ` need quotes"
	var located yaml.Error
	if !errors.As(err, &located) {
		s.add("", place{}, wrong(err.Error(), mend))
		return
	}
	s.add("", placeOfToken(located.GetToken()), wrong(unshield.Replace(strings.TrimSpace(located.GetMessage())), mend))
}
