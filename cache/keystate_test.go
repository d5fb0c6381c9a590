package cache

import (
	"fmt"
	"testing"
	"time"

	"github.com/swrproxy/swrproxy/fill"
)

func newStates() *keyStates {
	return &keyStates{first: time.Second, max: time.Minute, markFor: 10 * time.Second}
}

func TestBackoffGrowsToItsMaximum(t *testing.T) {
	k, now := newStates(), time.Unix(1e9, 0)
	key := fill.Key{Space: "s", ID: "a"}
	want := time.Second
	for range 12 {
		pause := k.failed(key, now, now, 0).Sub(now)
		if low, high := want*3/4, want*5/4; pause < low || pause > high {
			t.Errorf("pause %v, want within a quarter of %v", pause, want)
		}
		want = min(2*want, time.Minute)
		now = now.Add(pause)
		if !k.backingOff(key, now.Add(-1)) || k.backingOff(key, now) {
			t.Errorf("back-off does not end at %v", pause)
		}
	}
	k.forget(key)
	if pause := k.failed(key, now, now, 0).Sub(now); pause > 2*time.Second {
		t.Errorf("after a success the pause is %v", pause)
	}
}

func TestRetryAfterIsALowerBound(t *testing.T) {
	k, now := newStates(), time.Unix(1e9, 0)
	if got := k.failed(fill.Key{ID: "a"}, now, now, 90*time.Second).Sub(now); got != 90*time.Second {
		t.Errorf("pause %v", got)
	}
}

func TestMarkIsBounded(t *testing.T) {
	k, now := newStates(), time.Unix(1e9, 0)
	key := fill.Key{ID: "a"}
	k.mark(key, now)
	if !k.marked(key, now.Add(10*time.Second-1)) || k.marked(key, now.Add(10*time.Second)) {
		t.Error("the mark does not last markFor")
	}
	k.markFor = -1
	k.forget(key)
	if k.mark(key, now); k.marked(key, now) {
		t.Error("a negative markFor marks")
	}
}

func TestKeyStatesAreBounded(t *testing.T) {
	k, now := newStates(), time.Unix(1e9, 0)
	for i := range maxKeyStates + 1000 {
		k.mark(fill.Key{ID: fmt.Sprint(i)}, now)
	}
	if len(k.m) > maxKeyStates {
		t.Errorf("%d states", len(k.m))
	}
}
