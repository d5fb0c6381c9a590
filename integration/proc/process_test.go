package proc

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// child is the variable that makes this test binary play a proxy.
const child = "SWRPROXY_PROC_CHILD"

func TestMain(m *testing.M) {
	switch os.Getenv(child) {
	case "":
		os.Exit(m.Run())
	case "polite":
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		announce()
		<-stop
		fmt.Println("goodbye")
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		announce()
		time.Sleep(time.Hour)
	case "racy":
		announce()
		fmt.Fprintln(os.Stderr, strings.Repeat("a", 2*maxLine))
		for _, name := range []string{"first", "second"} {
			fmt.Fprintf(os.Stderr, "%s\nWARNING: DATA RACE\nWrite at %s\n%s\na line between\n", raceBorder, name, raceBorder)
		}
		fmt.Fprintf(os.Stderr, "%s\nWARNING: DATA RACE\nWrite at third, cut off", raceBorder)
	case "broken":
		fmt.Fprintln(os.Stderr, "no such origin")
		os.Exit(3)
	}
}

func announce() {
	fmt.Println("a line of no interest")
	fmt.Println("listening on http://127.0.0.1:1")
	fmt.Println("listening on https://127.0.0.1:2/")
	fmt.Println("admin on http://127.0.0.1:3")
}

func startChild(t *testing.T, kind string) (*Process, error) {
	t.Helper()
	p, err := Start(t.Context(), Options{Bin: os.Args[0], Env: []string{child + "=" + kind}, Listeners: 2, Admin: true})
	if err == nil {
		t.Cleanup(p.Kill)
	}
	return p, err
}

func TestAddressesAreReadFromTheOutput(t *testing.T) {
	p, err := startChild(t, "polite")
	if err != nil {
		t.Fatal(err)
	}
	if p.URL() != "http://127.0.0.1:1" || p.Addr() != "127.0.0.1:1" || p.URLs()[1] != "https://127.0.0.1:2" || p.AdminURL() != "http://127.0.0.1:3" {
		t.Errorf("addresses %v, admin %q", p.URLs(), p.AdminURL())
	}
	if rss, err := p.RSS(); err != nil || rss <= 0 {
		t.Errorf("RSS %d, %v", rss, err)
	}
	code, err := p.Stop(10 * time.Second)
	if code != 0 || err != nil {
		t.Errorf("Stop: %d, %v", code, err)
	}
	if !strings.HasSuffix(p.Stdout().String(), "goodbye") {
		t.Errorf("output up to the end is lost: %q", p.Stdout())
	}
}

// A report is found behind a line that is too long to keep, and when the child was killed in the middle of one.
func TestReportsOfRaces(t *testing.T) {
	p, err := startChild(t, "racy")
	if err != nil {
		t.Fatal(err)
	}
	<-p.Exited()
	want := []string{
		"WARNING: DATA RACE\nWrite at first", "WARNING: DATA RACE\nWrite at second", "WARNING: DATA RACE\nWrite at third, cut off",
	}
	if diff := cmp.Diff(want, p.Races()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	quiet, err := startChild(t, "polite")
	if err != nil {
		t.Fatal(err)
	}
	quiet.Kill()
	if got := quiet.Races(); len(got) != 0 {
		t.Errorf("races %q of a child that wrote nothing", got)
	}
}

// The race detector's reports go where they are looked for, wherever the environment sends those of this process.
func TestReportsOfRacesGoToStderr(t *testing.T) {
	t.Setenv("GORACE", "log_path=/nowhere")
	p, err := Start(t.Context(), Options{Bin: "/bin/sh", Args: []string{"-c", `echo "$GORACE"`}})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Exited()
	if got := p.Stdout().String(); got != "log_path=stderr" {
		t.Errorf("GORACE is %q", got)
	}
}

func TestStopKillsWhatDoesNotEnd(t *testing.T) {
	p, err := startChild(t, "deaf")
	if err != nil {
		t.Fatal(err)
	}
	if code, err := p.Stop(50 * time.Millisecond); code != -1 || !errors.Is(err, ErrStillRunning) {
		t.Errorf("Stop: %d, %v", code, err)
	}
}

func TestAChildThatDiesIsReportedWithItsWords(t *testing.T) {
	_, err := startChild(t, "broken")
	if !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "no such origin") {
		t.Errorf("error %v", err)
	}
}
