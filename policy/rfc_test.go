package policy

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Every test that docs/rfc.md names exists, in the package that it says.
func TestDocumentNamesRealTests(t *testing.T) {
	doc, err := os.ReadFile("../docs/rfc.md")
	if err != nil {
		t.Fatal(err)
	}
	defined := map[string]map[string]bool{}
	for _, dir := range []string{"policy", "cache", "integration"} {
		defined[dir] = testsIn(t, filepath.Join("..", dir))
	}
	named := regexp.MustCompile("`(?:(cache|integration)\\.)?((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(string(doc), -1)
	if len(named) < 100 {
		t.Errorf("only %d tests are named: the document or this test has changed its form", len(named))
	}
	for _, m := range named {
		dir := m[1]
		if dir == "" {
			dir = "policy"
		}
		if !defined[dir][m[2]] {
			t.Errorf("%s: package %s has no %s", m[0], dir, m[2])
		}
	}
}

// testsIn are the names of the tests and fuzzers in a directory's files.
func testsIn(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no test files in %s: %v", dir, err)
	}
	names := map[string]bool{}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllSubmatch(src, -1) {
			names[string(m[1])] = true
		}
	}
	return names
}
