package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/swrproxy/swrproxy/cache"
	"github.com/swrproxy/swrproxy/cache/disk"
)

// bodyMark is a content that a test can find again in the database file.
var bodyMark = []byte("a body that is easy to find")

func makeStore(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s, err := disk.Open(disk.Options{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	s.Put(&cache.Record{Key: "k", Primary: "k", Token: 1, Status: 200, Body: cache.MemoryBody(bodyMark)})
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestStoreCheckAndCompact(t *testing.T) {
	dir := makeStore(t)
	if status, out, errs := command("store", "check", dir); status != 0 || !strings.Contains(out, "1 records, 27 B of bodies") {
		t.Errorf("check: %d %q %q", status, out, errs)
	}
	if status, out, errs := command("store", "compact", dir); status != 0 || !strings.Contains(out, " after") {
		t.Errorf("compact: %d %q %q", status, out, errs)
	}
	if status, out, _ := command("store", "check", dir); status != 0 || !strings.Contains(out, "1 records") {
		t.Errorf("check after compact: %d %q", status, out)
	}
}

func TestStoreOfASettingsFile(t *testing.T) {
	dir := makeStore(t)
	file := write(t, good+"disk: { path: "+dir+" }\n")
	if status, out, errs := command("store", "check", "--config", file); status != 0 || !strings.Contains(out, "1 records") {
		t.Errorf("check: %d %q %q", status, out, errs)
	}
	if status, out, errs := command("store", "compact", "-c", file); status != 0 || !strings.HasPrefix(out, dir+": ") {
		t.Errorf("compact: %d %q %q", status, out, errs)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"both":         {[]string{dir, "--config", file}, "both DIR and --config"},
		"neither":      {nil, "give its DIR, or --config FILE"},
		"empty":        {[]string{""}, "give its DIR, or --config FILE"},
		"two":          {[]string{dir, dir}, "accepts at most 1 arg(s)"},
		"no disk tier": {[]string{"--config", write(t, good)}, "disk.path is not set"},
		"bad file":     {[]string{"--config", write(t, good+"dsk: 1\n")}, ":2:1: dsk: "},
		"no file":      {[]string{"--config", filepath.Join(dir, "nowhere.yaml")}, "nowhere.yaml"},
	} {
		for _, what := range []string{"check", "compact"} {
			status, _, errs := command(append([]string{"store", what}, c.args...)...)
			if status != 1 || !strings.Contains(errs, c.want) {
				t.Errorf("%s, %s: status %d, %q; want 1 and %q", what, name, status, errs, c.want)
			}
		}
	}
}

func TestStoreCheckFindsDamage(t *testing.T) {
	dir := makeStore(t)
	damaged := 0
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(data, bodyMark) {
			return err
		}
		damaged++
		return os.WriteFile(path, bytes.ReplaceAll(data, bodyMark, bytes.ToUpper(bodyMark)), 0o600)
	})
	if err != nil || damaged == 0 {
		t.Fatalf("%d files damaged, %v", damaged, err)
	}
	if status, out, errs := command("store", "check", dir); status != 1 || !strings.Contains(errs, "damaged") || strings.Count(out, "\n") < 2 {
		t.Errorf("check: %d %q %q", status, out, errs)
	}
}

func TestStoreThatIsNotThere(t *testing.T) {
	for _, what := range []string{"check", "compact"} {
		if status, _, errs := command("store", what, filepath.Join(t.TempDir(), "nowhere")); status != 1 || !strings.Contains(errs, "nowhere") {
			t.Errorf("%s: %d %q", what, status, errs)
		}
	}
}
