package integration

import (
	"net/http"
	"testing"
)

// What an unsafe request invalidated is gone when its answer is there, a kill -9 right after it included.
func TestUnsafeMethodOutlivesAKill(t *testing.T) {
	t.Parallel()
	o := newOrigin(t).on("/u", page("Cache-Control: max-age=600"))
	c := onDisk(t, o)
	p := start(t, c)
	p.mayFail = true
	p.prime("/u")
	p.purgeAnswer(`{"tags":["none"]}`) // now it is on disk
	if r := p.do("POST", "/u", "Content-Length: 0"); r.Status != http.StatusOK {
		t.Fatalf("POST: %d", r.Status)
	}
	p.Kill()
	again := start(t, c)
	if r := again.get("/u"); r.Body == version(1, "/u") {
		t.Error("the old content came back")
	}
}
