package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// A look lets a loop work that has not since the last one, and leaves alone one that has.
func TestLook(t *testing.T) {
	s := &Server{watch: newWatch()}
	l, err := newLoop(s)
	if err != nil {
		t.Fatal(err)
	}
	defer l.run() // closes the bell
	defer l.stop()
	look := func(step string, want looked) {
		t.Helper()
		if got := l.look(); got != want {
			t.Errorf("%s: %d, want %d", step, got, want)
		}
	}
	look("a new loop hears of its bell", loopLate)
	look("no news", loopIdle)
	l.ring()
	look("the bell rang", loopLate)
	l.ring()
	l.rounds(0) // as Go's poller would
	look("that was work", loopBusy)
	look("no news", loopIdle)
}

// The watch dozes when there is no news, and does not once there is.
func TestWatchDozes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatch()
		life, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.run(life, nil)
		}()
		nap := func(want bool, looks int) {
			t.Helper()
			time.Sleep(time.Duration(looks)*watchEvery + watchEvery/2)
			synctest.Wait()
			if got := w.dozing.Load(); got != want {
				t.Errorf("after %d looks it dozes: %t, want %t", looks, got, want)
			}
		}
		nap(false, dozeAfter)
		nap(true, 2)
		w.stir()
		nap(false, dozeAfter-1)
		nap(true, 3)
		end()
		<-done
	})
}
