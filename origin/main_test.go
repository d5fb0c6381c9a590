package origin

import (
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// clientEnv chooses how the tests' pools make exchanges that may go through plain. Without it: as in production.
const clientEnv = "SWRPROXY_ORIGIN_TEST_CLIENT"

var clientUnderTest = map[string]plainUse{"plain": plainAlways, withinClient: plainAlways, "net/http": plainNever}[os.Getenv(clientEnv)]

// withinClient is plain in two parts.
const withinClient = "plain within"

// roundTrip is p.RoundTrip, in two parts if those are under test.
func roundTrip(p *Pool, r *http.Request) (*http.Response, error) {
	if os.Getenv(clientEnv) != withinClient {
		return p.RoundTrip(r)
	}
	resp, rest, err := p.RoundTripWithin(r, 5*time.Millisecond)
	if rest != nil {
		return rest(r.Context())
	}
	return resp, err
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestBothClients runs all tests of this package once more with either client, and with plain in two parts: what plain does must be what net/http
// does.
func TestBothClients(t *testing.T) {
	if os.Getenv(clientEnv) != "" {
		return // this is such a run
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, client := range []string{"plain", withinClient, "net/http"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), self, "-test.count=1", "-test.shuffle=on", "-test.timeout="+timeLeft(t).String())
			cmd.Env = append(os.Environ(), clientEnv+"="+client)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// timeLeft is most of what is left until the test's deadline, 0 without one: what hangs in another process shall say where, before this one is
// ended for it.
func timeLeft(t *testing.T) time.Duration {
	deadline, ok := t.Deadline()
	if !ok {
		return 0
	}
	return time.Until(deadline) * 3 / 4
}
