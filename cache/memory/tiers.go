package memory

import "github.com/swrproxy/swrproxy/cache"

var inMemory = []string{"memory"}

// TiersOf says "memory" if the record of this key is here. It does not count as a use.
func (s *Store) TiersOf(key string) []string {
	h := s.hash(key)
	sh := s.shard(h)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	if r := s.peekLocked(sh, h); r == nil || r.Key != key {
		return nil
	}
	return inMemory
}

var _ cache.Locator = (*Store)(nil)
