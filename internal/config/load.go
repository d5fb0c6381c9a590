package config

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"reflect"

	"github.com/goccy/go-yaml/ast"
)

// Options say what settings are made of.
type Options struct {
	// File is the YAML file. "" means none: flags and defaults only.
	File string
	// Flags are laid over the file in their order.
	Flags []Flag
	// Env looks up environment variables. Nil means os.LookupEnv.
	Env func(string) (string, bool)
	// MemoryLimit is how many bytes of memory the process may take, of which memory.max is a quarter by default. 0 takes
	// the least of the process's own limit (GOMEMLIMIT), its cgroup's, and the machine's memory.
	MemoryLimit uint64
}

// Load reads, merges and validates settings. On an error it returns no settings: either an *Error with every mistake, or
// what kept the file from being read.
func Load(o Options) (*Config, error) {
	if o.File == "" {
		return parse(o, nil)
	}
	data, err := readFile(o.File)
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	return parse(o, data)
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s: larger than 4 MiB", name)
	}
	return data, err
}

// Parse is Load for a file that was already read; o.File only names it in messages.
func Parse(o Options, data []byte) (*Config, error) { return parse(o, data) }

func parse(o Options, data []byte) (*Config, error) {
	memory := allowanceOf(o)
	cfg := defaults(memory.limit)
	data = plainText(data)
	s := newSource(o.File, data)
	root, ok := s.parseDocument(data)
	if !ok {
		return nil, s.err()
	}
	if root != nil {
		d := &decoder{source: s, env: lookupEnv(o.Env), anchors: map[string]ast.Node{}}
		ast.Walk(d, root)
		d.decode("", root, reflect.ValueOf(cfg).Elem(), "", 0)
	}
	s.overlay(cfg, o.Flags)
	s.complete(cfg)
	s.overlayRules(cfg, o.Flags)
	s.validate(cfg)
	s.checkMemory(cfg, memory)
	if err := s.err(); err != nil {
		return nil, err
	}
	s.finish(s.warnings)
	cfg.warnings = s.warnings
	return cfg, nil
}

// plainText undoes what some editors do: a byte order mark, and line ends of two characters, which the parser would count twice.
func plainText(data []byte) []byte {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	return bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
}
