package cache

import (
	"errors"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/swrproxy/swrproxy/policy"
)

var (
	// ErrNoRule is wrapped by what Explain and Refresh return for a request that no rule matches.
	ErrNoRule = errNoRule
	// ErrNoSlot is wrapped by what Refresh returns when all fill places of the origin are taken: try again later.
	ErrNoSlot = errNoSlot
	// ErrStatus is wrapped by what Refresh returns when the origin answered with an error status: what was stored stays.
	ErrStatus = errStatusFail
)

// IsBadRequest tells whether an error of Explain or Refresh is about the request: its URL or Host is malformed.
func IsBadRequest(err error) bool {
	_, bad := errors.AsType[*policy.BadTarget](err)
	return bad
}

// refusal is why a response was not stored. Immutable.
type refusal struct {
	primary string
	reason  policy.Reason
	status  int
	at      time.Time
}

// refusals remember, for explanations, why the latest responses that were not stored were not. A slot that another key needs is
// overwritten: nothing but an explanation is lost. Safe for concurrent use.
type refusals struct {
	slots [1 << 10]atomic.Pointer[refusal]
}

func (s *refusals) slot(primary string) *atomic.Pointer[refusal] {
	return &s.slots[maphash.String(stripeSeed, primary)%uint64(len(s.slots))]
}

// note remembers that the response of a fill was not stored.
func (s *refusals) note(primary string, h *head) {
	s.slot(primary).Store(&refusal{primary, h.admission.Reason, h.status, h.at})
}

// get returns the latest refusal of a key, if it is still known.
func (s *refusals) get(primary string) (refusal, bool) {
	r := s.slot(primary).Load()
	if r == nil || r.primary != primary {
		return refusal{}, false
	}
	return *r, true
}

// reading is how many readers follow the fill now.
func (fl *flight) reading() int {
	fl.mu.Lock()
	defer fl.mu.Unlock()
	return fl.readers
}
