package filelease

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/swrproxy/swrproxy/fill"
)

// claim is what a claim file says.
type claim struct {
	checkin int64 // wall clock in nanoseconds; 0: anybody's to take
	owner   string
	token   uint64
	process string
	key     fill.Key
}

const (
	claimMagic  = "swrproxy claim 1\ncheckin "
	checkinSize = 20
)

var errNotClaim = errors.New("not a whole claim")

// encode returns the text of a claim file.
func (c *claim) encode() []byte {
	return fmt.Appendf(nil, "%s%s\nowner %s\ntoken %d\nprocess %s\nkey %q %q\n",
		claimMagic, checkinText(c.checkin), c.owner, c.token, c.process, c.key.Space, c.key.ID)
}

func checkinText(at int64) string {
	return fmt.Sprintf("%0*d", checkinSize, at)
}

// parseClaim reads the text of a claim file.
func parseClaim(text []byte) (claim, error) {
	var c claim
	rest, ok := bytes.CutPrefix(text, []byte(claimMagic))
	if !ok || !bytes.HasSuffix(text, []byte("\n")) {
		return c, errNotClaim
	}
	lines := bytes.Split(rest, []byte("\n"))
	if len(lines) != 6 || len(lines[0]) != checkinSize {
		return c, errNotClaim
	}
	var err, tokenErr error
	c.checkin, err = strconv.ParseInt(string(lines[0]), 10, 64)
	c.owner = field(lines[1], "owner ")
	c.token, tokenErr = strconv.ParseUint(field(lines[2], "token "), 10, 64)
	c.process = field(lines[3], "process ")
	_, keyErr := fmt.Sscanf(string(lines[4]), "key %q %q", &c.key.Space, &c.key.ID)
	if err != nil || tokenErr != nil || keyErr != nil || c.checkin < 0 || c.owner == "" {
		return claim{}, errNotClaim
	}
	return c, nil
}

func field(line []byte, name string) string {
	value, _ := bytes.CutPrefix(line, []byte(name))
	return string(value)
}

// fresh tells whether a claim that was checked in then is in force now. One from the future is not: the clock was put back, and
// nobody could say for how long it would have to be believed.
func fresh(checkin, now int64, stale time.Duration) bool {
	return checkin > 0 && checkin <= now && now-checkin < int64(stale)
}
