package config

import (
	"errors"
	"os"
	"testing"
)

// FuzzParse: whatever a file holds, loading it ends with settings that print and load again, or with located problems.
func FuzzParse(f *testing.F) {
	example, err := os.ReadFile(exampleFile)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		string(example), minimal, "", "\t", "a: b: c", "[", "- &a *a", "a: &a {b: *a}", "? {a: b}\n: c", "<<: {origins: {}}",
		"origins: {a: {url: ${A}}}", "listen: !!str 5", "fill: {tenure: 'x${'}", "a: |\n  b\n c", "---\n---\n", "\xff\xfe", "rules: [[]]", "tls: [{}]",
		"x: *y", "log: &l\n  <<: *l\n", "%YAML 1.2\n---\na: 1", "a:\n- b\n  - c: {", "\"\\ud800\": 1", "? [a]\n: b\n", "!!binary x: 1",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		o := Options{File: "c.yaml", Env: noEnv, MemoryLimit: 1 << 30}
		cfg, err := Parse(o, data)
		if err != nil {
			e, ok := errors.AsType[*Error](err)
			if !ok || len(e.Problems) == 0 || e.Error() == "" {
				t.Fatalf("error without problems: %v", err)
			}
			return
		}
		if _, err := Parse(o, cfg.YAML()); err != nil {
			t.Fatalf("printed settings do not load:\n%s\n%v", cfg.YAML(), err)
		}
	})
}
