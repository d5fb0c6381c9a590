package disk

import "github.com/swrproxy/swrproxy/cache"

var tierName = []string{"disk"}

// TiersOf says "disk" if the record of this key is here or waits to be written. It does not count as a use.
func (s *Store) TiersOf(key string) []string {
	h := s.hash(key)
	if r, known := s.queued(h); known {
		if r == nil || r.Key != key {
			return nil
		}
		return tierName
	}
	if f, _ := s.peek(h, key); !f.ok {
		return nil
	}
	return tierName
}

var _ cache.Locator = (*Store)(nil)
