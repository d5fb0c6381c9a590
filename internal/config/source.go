package config

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// source knows where each setting came from and collects what is wrong with it. Not safe for concurrent use.
type source struct {
	file  string
	lines []string
	// at is the place of each key that the file sets, flags the flag that set it instead.
	at    map[string]place
	flags map[string]string

	// broken are the paths whose values could not be read. Rules across keys leave them alone.
	broken []string

	// secrets are texts that no excerpt may show.
	secrets []string

	problems []Problem
	warnings []Problem
}

// place is a position in the file. Both count from 1.
type place struct{ line, column int }

func newSource(file string, data []byte) *source {
	return &source{file: file, lines: strings.Split(string(data), "\n"), at: map[string]place{}, flags: map[string]string{}}
}

// given reports whether the file or a flag sets path.
func (s *source) given(path string) bool {
	_, inFile := s.at[path]
	_, byFlag := s.flags[path]
	return inFile || byFlag
}

// add records a mistake in the value at path.
func (s *source) add(path string, p place, err error) {
	s.problems = append(s.problems, s.problem(path, p, err))
	s.broken = append(s.broken, path)
}

// clean reports whether everything at and below path could be read.
func (s *source) clean(path string) bool {
	for _, b := range s.broken {
		if b == "" || b == path || strings.HasPrefix(b, path+".") || strings.HasPrefix(b, path+"[") {
			return false
		}
	}
	return true
}

// fail records a mistake found across keys; path is the key to blame, or the nearest one above it that is written down.
func (s *source) fail(path, what, mend string) {
	s.problems = append(s.problems, s.locate(path, what, mend))
}

// warn records something allowed and dangerous.
func (s *source) warn(path, what, mend string) {
	s.warnings = append(s.warnings, s.locate(path, what, mend))
}

func (s *source) locate(path, what, mend string) Problem {
	for p := path; p != ""; p = parent(p) {
		if flag, ok := s.flags[p]; ok {
			return Problem{File: flag, What: what, Mend: mend}
		}
		if at, ok := s.at[p]; ok {
			return s.problem(path, at, wrong(what, mend))
		}
	}
	return Problem{File: s.name(), Path: path, What: what, Mend: mend}
}

// name is what stands for the file where there is none.
func (s *source) name() string {
	if s.file == "" {
		return "command line"
	}
	return s.file
}

func (s *source) problem(path string, p place, err error) Problem {
	out := Problem{File: s.name(), Line: p.line, Column: p.column, Path: path, What: err.Error()}
	m, ok := err.(*mistake)
	if ok {
		out.What, out.Mend = m.what, m.mend
	}
	if (!ok || !m.secret) && p.line >= 1 && p.line <= len(s.lines) {
		out.Excerpt = strings.TrimRight(s.lines[p.line-1], " \t\r")
		out.mark = p.column
	}
	return out
}

// err returns everything that was found, in the order of the file; nil if nothing was.
func (s *source) err() error {
	if len(s.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(s.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	all := slices.Compact(s.problems)
	shown := all[:min(len(all), maxProblems)]
	s.finish(shown)
	return &Error{Problems: shown, More: len(all) - len(shown)}
}

// passwords are what stands before the @ of a URL.
var passwords = regexp.MustCompile(`://[^/@]*@`)

// finish removes secrets from the excerpts, since a problem may stand in the same line as a secret, and cuts long lines.
func (s *source) finish(problems []Problem) {
	for i := range problems {
		e := &problems[i].Excerpt
		*e = passwords.ReplaceAllStringFunc(*e, func(m string) string {
			return "://" + strings.Repeat("*", utf8.RuneCountInString(m)-4) + "@"
		})
		for _, secret := range s.secrets {
			if len(secret) > 0 && !strings.Contains(secret, "$"+opening) {
				*e = strings.ReplaceAll(*e, secret, strings.Repeat("*", utf8.RuneCountInString(secret)))
			}
		}
		*e, problems[i].mark = excerpt(*e, problems[i].Column)
	}
}

// parent cuts the last part off a path: a.b[1] gives a.b, which gives a.
func parent(path string) string {
	if i := strings.LastIndexAny(path, ".["); i > 0 {
		return path[:i]
	}
	return ""
}

// placeOf returns where a node begins. A block mapping begins at its first key, not at that key's colon.
func placeOf(n ast.Node) place {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key
	}
	return placeOfToken(n.GetToken())
}

func placeOfToken(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{}
	}
	return place{line: t.Position.Line, column: t.Position.Column}
}
