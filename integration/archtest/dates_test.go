package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testFiles returns the text of every test file by its path in the module.
func testFiles(t *testing.T) map[string][]byte {
	t.Helper()
	root := filepath.Join("..", "..")
	files := make(map[string][]byte)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if name := e.Name(); name == "node_modules" || path != root && strings.HasPrefix(name, ".") {
				return filepath.SkipDir
			}
			return nil
		}
		below, err := filepath.Rel(root, path)
		if err != nil || !isTest(below) {
			return err
		}
		files[filepath.ToSlash(below)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 100 {
		t.Fatalf("only %d test files found", len(files))
	}
	return files
}

// A test that meets the real clock takes its dates from that clock.
func TestNoTestDependsOnTheDay(t *testing.T) {
	for path, text := range testFiles(t) {
		dates := datesIn(path, text)
		_, listed := DatedTests[path]
		switch {
		case len(dates) > 0 && !listed:
			t.Errorf("%s holds %q: take dates from the clock, or list the file with the reason why it meets none", path, dates)
		case len(dates) == 0 && listed:
			t.Errorf("%s holds no dates any more: take it off the list", path)
		}
	}
}

func TestEveryDatedTestHasAReasonAndIsThere(t *testing.T) {
	files := testFiles(t)
	for path, reason := range DatedTests {
		if _, ok := files[path]; !ok || reason == "" {
			t.Errorf("%s: there: %v, reason: %q", path, ok, reason)
		}
	}
}

func TestDatesAreFound(t *testing.T) {
	const quoted = "package p\nvar s = %\n"
	for name, c := range map[string]struct {
		path, text string
		want       []string
	}{
		"IMF-fixdate":             {"a_test.go", `"Date: Sun, 06 Nov 1994 08:49:37 GMT"`, []string{"Sun, 06 Nov 1994 08:49"}},
		"RFC 850 form":            {"a_test.go", `"Sunday, 06-Nov-94 08:49:37 GMT"`, []string{"Sunday, 06-Nov-94 08:49"}},
		"asctime form":            {"a_test.go", `"Sun Nov  6 08:49:37 1994"`, []string{"Sun Nov  6 08:49:37 1994"}},
		"one-digit hour":          {"a_test.go", `"Sat, 01 Oct 2022 7:19:16 GMT"`, []string{"Sat, 01 Oct 2022 7:19"}},
		"year":                    {"a_test.go", `time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)`, []string{"2025"}},
		"RFC 3339":                {"a_test.go", `"2031-02-03T04:05:06Z"`, []string{"2031"}},
		"seconds":                 {"a_test.go", `time.Unix(1_893_456_000, 0)`, []string{"1_893_456_000"}},
		"certificate":             {"a_test.go", "`-----BEGIN CERTIFICATE-----`", []string{"BEGIN CERTIFICATE"}},
		"in settings":             {"a.yaml", "until: 2031-02-03 # x", []string{"2031"}},
		"years before":            {"a_test.go", `time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)`, nil},
		"seconds of years before": {"a_test.go", `time.Unix(1_700_000_000, 0)`, nil},
		"sizes":                   {"a_test.go", `[]int{2048, 2049, 4096, 20260, 12030}`, nil},
		"layout":                  {"a_test.go", `"Mon, 02 Jan 2006 15:04:05 GMT"`, nil},
		"comment":                 {"a_test.go", "1 // as in 2026", nil},
	} {
		text := c.text
		if filepath.Ext(c.path) == ".go" {
			text = strings.Replace(quoted, "%", text, 1)
		}
		if diff := cmp.Diff(c.want, datesIn(c.path, []byte(text))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhichFilesAreTests(t *testing.T) {
	for path, want := range map[string]bool{
		"cache/cache_test.go": true, "policy/testdata/fuzz/FuzzTarget/1": true, "config.example.yaml": true, "integration/conformance/judge.mjs": true,
		"integration/bench/main.go": true, "integration/bench/results.json": false, "cache/cache.go": false, "README.md": false,
	} {
		if got := isTest(path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
