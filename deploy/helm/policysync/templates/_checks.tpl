{{/* Values that contradict each other end the rendering, with what to do. */}}
{{- define "policysync.checks" -}}
{{- $values := .Values -}}
{{- if and $values.authentication.enabled $values.server.enabled (not $values.authentication.existingSecret) -}}
{{- fail "\n\nAuthentication is on, and there are no default keys: name a secret with auth-private-key, auth-public-key and auth-master-token in authentication.existingSecret (docs/kubernetes.md makes one), or set authentication.enabled=false where everybody who reaches the server may do everything.\n" -}}
{{- end -}}
{{- if and $values.authentication.enabled $values.client.enabled (not $values.client.existingSecret) -}}
{{- fail "\n\nAuthentication is on: name a secret with client-token and auth-public-key in client.existingSecret. `policysync token` issues the token once the server runs (docs/kubernetes.md).\n" -}}
{{- end -}}
{{- if and $values.server.enabled (gt (int $values.server.replicas) 1) (not $values.backbone.existingSecret) -}}
{{- fail "\n\nSeveral servers need a log that they share: name a secret with broadcast-uri in backbone.existingSecret, or set server.replicas=1.\n" -}}
{{- end -}}
{{- if and $values.server.enabled (not $values.server.policyRepo.url) (ne (toString $values.server.settings.SYNC_POLICY_SOURCE_TYPE) "API") -}}
{{- fail "\n\nThere is no policy source: set server.policyRepo.url to a git repository, or server.settings.SYNC_POLICY_SOURCE_TYPE=API and SYNC_POLICY_BUNDLE_URL.\n" -}}
{{- end -}}
{{- if and $values.client.enabled (not $values.server.enabled) (not $values.client.serverUrl) -}}
{{- fail "\n\nThe client has no server: set client.serverUrl, or server.enabled=true.\n" -}}
{{- end -}}
{{- with $values.client -}}
{{- if and .enabled .serviceMonitor.enabled .networkPolicy.enabled (not (concat .networkPolicy.from .networkPolicy.metricsFrom)) -}}
{{- fail "\n\nPrometheus could not reach /metrics of the client: say where it is in client.networkPolicy.metricsFrom, or set client.networkPolicy.enabled=false.\n" -}}
{{- end -}}
{{- end -}}
{{- with $values.server -}}
{{- if and .enabled .serviceMonitor.enabled .tls.existingSecret .tls.clientCertificates (not .serviceMonitor.tlsConfig) -}}
{{- fail "\n\nCallers must present a certificate, Prometheus too: name one in server.serviceMonitor.tlsConfig (cert and keySecret), or set server.tls.clientCertificates=false.\n" -}}
{{- end -}}
{{- end -}}
{{- range $name := list "server" "client" -}}
{{- $part := index $values $name -}}
{{- if and $part.enabled $part.serviceMonitor.enabled $values.authentication.enabled (not $part.serviceMonitor.tokenSecret.name) (ne (toString $part.settings.SYNC_METRICS_ACCESS) "everyone") -}}
{{- fail (printf "\n\nWith authentication /metrics needs a token: name a secret in %s.serviceMonitor.tokenSecret, or set %s.settings.SYNC_METRICS_ACCESS=everyone.\n" $name $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
