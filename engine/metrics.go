//go:build js && wasm

package main

import (
	"fmt"
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// durationBuckets are those of OPA's server.
var durationBuckets = []float64{1e-6, 5e-6, 1e-5, 5e-5, 1e-4, 5e-4, 1e-3, 0.01, 0.1, 1}

// requestMetrics are the figures at /metrics, by the names of OPA's own, which cannot be imported.
type requestMetrics struct {
	registry  *prometheus.Registry
	durations *prometheus.HistogramVec
}

func newMetrics() *requestMetrics {
	m := &requestMetrics{
		registry: prometheus.NewRegistry(),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "http_request_duration_seconds",
			Help:    "A histogram of duration for requests.",
			Buckets: durationBuckets,
		}, []string{"code", "handler", "method"}),
	}
	m.registry.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)), m.durations)
	return m
}

// RegisterEndpoints adds the routes of the figures to a server.
func (m *requestMetrics) RegisterEndpoints(register func(path, method string, handler http.Handler)) {
	register("/metrics", http.MethodGet, promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	register("/metrics/alloc_bytes", http.MethodGet, http.HandlerFunc(allocatedBytes))
}

// InstrumentHandler measures a handler.
func (m *requestMetrics) InstrumentHandler(handler http.Handler, label string) http.Handler {
	return promhttp.InstrumentHandlerDuration(m.durations.MustCurryWith(prometheus.Labels{"handler": label}), handler)
}

func allocatedBytes(w http.ResponseWriter, r *http.Request) {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	w.WriteHeader(http.StatusOK)
	_, _ = fmt.Fprintln(w, stats.Alloc)
}
