package config

import (
	"strings"
	"testing"
)

// A memory tier above three quarters of what there is gets a warning that says how much that is and what would do.
func TestMemoryBeyondTheMachine(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"beyond":           {"memory: {max: 99999GiB}", []string{"99999GiB", "the memory of this process, 4GiB", "at most 2GiB"}},
		"nearly all":       {"memory: {max: 3073MiB}", []string{"3073MiB"}},
		"three quarters":   {"memory: {max: 3GiB}", nil},
		"a quarter, unset": {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			warnings := mustLoad(t, minimal+c.text).Warnings()
			if len(warnings) != min(len(c.want), 1) {
				t.Fatalf("warnings %v", warnings)
			}
			for _, want := range c.want {
				if got := warnings[0].String(); !strings.Contains(got, want) || !strings.Contains(got, "memory.max") {
					t.Errorf("%q does not say %q", got, want)
				}
			}
		})
	}
}

// Where no size of the memory tier would do, the limit has to be raised.
func TestMemoryLimitTooLow(t *testing.T) {
	for limit, want := range map[uint64]string{1: "1B; ", 20 << 10: "20KiB; ", 32 << 10: "write at most 16KiB"} {
		cfg, err := Parse(Options{File: "c.yaml", Env: noEnv, MemoryLimit: limit}, []byte(minimal+"memory: {max: 64MiB}"))
		if err != nil {
			t.Fatal(err)
		}
		got := cfg.Warnings()[0].String()
		if raise := strings.Contains(got, "raise that to 128MiB"); !strings.Contains(got, want) || raise != (limit < 32<<10) {
			t.Errorf("limit %d: %q, want %q", limit, got, want)
		}
	}
}

// What binds this very process is known by name.
func TestAllowanceOfThisProcess(t *testing.T) {
	if a := processAllowance(); a.limit == 0 || a.whose == "" {
		t.Skipf("nothing tells here: %+v", a)
	} else if a.limit < 1<<20 {
		t.Errorf("%+v", a)
	}
}
