package integration

// Names of metrics that tests read.
const (
	metricWaiting  = "swrproxy_waiting"
	metricRequests = "swrproxy_requests_total"
	metricFills    = "swrproxy_fills_total"
)
