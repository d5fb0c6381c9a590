// Command conformance runs the public HTTP cache test suite (https://github.com/http-tests/cache-tests) against the built proxy.
//
// # Usage
//
//	go run ./integration/conformance                 # what make conformance does
//	go run ./integration/conformance -id cc-resp-no-store   # one test, with all its requests and responses
//	go run ./integration/conformance -update         # accept the present results as the baseline
//	SWRPROXY_SUITE=~/cache-tests go run ./integration/conformance   # another edition, from a checkout with its npm packages installed
//
// The npm edition is installed into .suite beside this file when it is not there yet; it needs Node 20 or newer and npm. The suite's own code
// decides what passed: its dependencies between tests, setup failures and retries are judged as on its public site.
//
// The proxy runs with a plain configuration plus the fragment extra.yaml, which holds every setting that conformance needs beyond the defaults.
//
// # Files
//
// extra.yaml is that fragment, deviations.json has a reason for each test that is knowingly failed, baseline.json lists the tests
// that passed when it was last accepted. docs/conformance.md is written from the results.
//
// # Errors
//
// The exit status is 1 if a test of the baseline fails, if a test could not be set up, or if the suite could not be run.
package main
