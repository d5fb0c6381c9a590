package policy

import (
	"net/http"
	"testing"
)

// RFC 9110 §6.4.1: no content in answers to HEAD, in 1xx, 204 and 304, and in no others.
func TestHasContent(t *testing.T) {
	without := map[int]bool{http.StatusNoContent: true, http.StatusNotModified: true}
	for status := 100; status < 600; status++ {
		want := status >= 200 && !without[status]
		if got := HasContent(http.MethodGet, status); got != want {
			t.Errorf("GET, %d: %t", status, got)
		}
		if HasContent(http.MethodHead, status) {
			t.Errorf("HEAD, %d: has content", status)
		}
		if got := StatusHasContent(status); got != want {
			t.Errorf("%d: %t", status, got)
		}
	}
}
