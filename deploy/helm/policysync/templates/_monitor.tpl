{{/* A ServiceMonitor. Dict: names, name, port, scheme, monitor, tls (what the server has beside monitor.tlsConfig). */}}
{{- define "policysync.serviceMonitor" -}}
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ .name }}
  labels:
    {{- include "policysync.labels" .names | nindent 4 }}
    {{- with .monitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      {{- include "policysync.selector" .names | nindent 6 }}
  endpoints:
    - port: {{ .port }}
      path: /metrics
      scheme: {{ .scheme }}
      interval: {{ .monitor.interval }}
      {{- with .tls }}
      tlsConfig:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if .monitor.tokenSecret.name }}
      authorization:
        credentials: { name: {{ .monitor.tokenSecret.name }}, key: {{ .monitor.tokenSecret.key }} }
      {{- end }}
{{- end -}}
