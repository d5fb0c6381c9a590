package main

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// expected is by how much the clock of this test binary is ahead.
func expected(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(aheadEnv)
	if text == "" {
		return 0
	}
	ahead, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return ahead
}

// kernel is the wall clock read without package time, in whole microseconds.
func kernel(t *testing.T) time.Time {
	t.Helper()
	var at syscall.Timeval
	if err := syscall.Gettimeofday(&at); err != nil {
		t.Fatal(err)
	}
	return time.Unix(at.Unix())
}

func TestClockIsAheadAsTold(t *testing.T) {
	ahead := expected(t)
	earliest := kernel(t).Add(ahead)
	now := time.Now().Round(0)
	latest := kernel(t).Add(ahead + time.Microsecond)
	if now.Before(earliest) || now.After(latest) {
		t.Errorf("time.Now is %v, want between %v and %v: %v ahead", now, earliest, latest, ahead)
	}
}

func TestFakeClockIsNotMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if now, want := time.Now(), time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); !now.Equal(want) {
			t.Errorf("a bubble begins at %v, want %v", now, want)
		}
	})
}

func TestPatch(t *testing.T) {
	path, err := timeSource()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	patched, err := patch(source, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(patched); len(got) <= len(source) || !strings.Contains(got, "\tsec, nsec, mono := runtimeNow()\n\tif !runtimeIsBubbled() {\n\t\tsec += 3600\n\t}\n") {
		t.Error("the clock is not moved by 3600 seconds")
	}
	for name, other := range map[string]string{
		"reads another clock": strings.Replace(string(source), reading, "\nfunc Now() Time {\n\tsec, nsec, mono := now()\n", 1),
		"knows no bubbles":    strings.Replace(string(source), bubbled, "\n", 1),
		"patched already":     string(patched) + reading,
		"empty":               "",
	} {
		if _, err := patch([]byte(other), time.Hour); !errors.Is(err, errUnknownSource) {
			t.Errorf("%s: %v, want %v", name, err, errUnknownSource)
		}
	}
}
