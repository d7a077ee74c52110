{{/* Values that contradict each other end the rendering, with what to do. */}}
{{- define "policysync.checks" -}}
{{- $values := .Values -}}
{{- if and $values.authentication.enabled $values.server.enabled (not $values.authentication.existingSecret) -}}
{{- fail "\n\nAuthentication is on, and there are no default keys: name a secret with auth-private-key, auth-public-key and auth-master-token in authentication.existingSecret (docs/how-to/kubernetes.md makes one), or set authentication.enabled=false where everybody who reaches the server may do everything.\n" -}}
{{- end -}}
{{- if and $values.authentication.enabled $values.client.enabled (not $values.client.existingSecret) -}}
{{- fail "\n\nAuthentication is on: name a secret with client-token and auth-public-key in client.existingSecret. `policysync token` issues the token once the server runs (docs/how-to/kubernetes.md).\n" -}}
{{- end -}}
{{- if and $values.server.enabled (gt (int $values.server.replicas) 1) (not $values.backbone.existingSecret) -}}
{{- fail "\n\nSeveral servers need a log that they share: name a secret with broadcast-uri in backbone.existingSecret, or set server.replicas=1.\n" -}}
{{- end -}}
{{- $sources := list $values.server.policyRepo.url $values.server.settings.SYNC_POLICY_REPO_URL -}}
{{- range $values.server.extraEnv -}}
{{- $sources = append $sources (ternary .name "" (eq (toString .name) "SYNC_POLICY_REPO_URL")) -}}
{{- end -}}
{{- if and $values.server.enabled (not (compact $sources)) (ne (toString $values.server.settings.SYNC_POLICY_SOURCE_TYPE) "API") -}}
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
{{- if and .tls.clientCertificates (not .tls.existingSecret) -}}
{{- fail "\n\nserver.tls.clientCertificates asks callers for a certificate, and the server has none itself: name a secret with tls.crt, tls.key and ca.crt in server.tls.existingSecret, or set server.tls.clientCertificates=false.\n" -}}
{{- end -}}
{{- if and .serviceMonitor.tlsConfig (not .tls.existingSecret) -}}
{{- fail "\n\nserver.serviceMonitor.tlsConfig is for HTTPS, and the server has no certificate: name a secret with tls.crt and tls.key in server.tls.existingSecret, or leave tlsConfig out.\n" -}}
{{- end -}}
{{- if and .enabled .serviceMonitor.enabled .tls.existingSecret .tls.clientCertificates (not .serviceMonitor.tlsConfig) -}}
{{- fail "\n\nCallers must present a certificate, Prometheus too: name one in server.serviceMonitor.tlsConfig (cert and keySecret), or set server.tls.clientCertificates=false.\n" -}}
{{- end -}}
{{- end -}}
{{- with $values.client -}}
{{- $named := keys .settings -}}
{{- range .extraEnv -}}
{{- $named = append $named (toString .name) -}}
{{- end -}}
{{- if and .enabled $values.server.enabled $values.server.tls.clientCertificates (not .serverUrl) (not (has "SYNC_CLIENT_TLS_CERT_FILE" $named)) -}}
{{- fail "\n\nCallers of the server must present a certificate, the clients of this chart too: mount one (client.extraVolumes, client.extraVolumeMounts) and name its files in client.settings.SYNC_CLIENT_TLS_CERT_FILE and SYNC_CLIENT_TLS_KEY_FILE, or set server.tls.clientCertificates=false.\n" -}}
{{- end -}}
{{- if and .enabled (eq (toString .settings.SYNC_CLIENT_SELF_SIGNED_CERTIFICATES_ALLOWED) "true") (not (has "SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE" $named)) -}}
{{- fail "\n\nclient.settings.SYNC_CLIENT_SELF_SIGNED_CERTIFICATES_ALLOWED trusts an authority that is not there: mount its certificate (client.extraVolumes, client.extraVolumeMounts) and name the file in client.settings.SYNC_CLIENT_SSL_CONTEXT_TRUSTED_CA_FILE.\n" -}}
{{- end -}}
{{- end -}}
{{- $known := include "policysync.settings" . | fromJson -}}
{{- $made := dict "server" (list) "client" (list) -}}
{{- if $values.authentication.enabled -}}
{{- $made = dict "server" (list "SYNC_AUTH_PRIVATE_KEY" "SYNC_AUTH_MASTER_TOKEN") "client" (list "SYNC_CLIENT_TOKEN") -}}
{{- end -}}
{{- if $values.backbone.existingSecret -}}
{{- $_ := set $made "server" (append $made.server "SYNC_BROADCAST_URI") -}}
{{- end -}}
{{- include "policysync.noPassword" (dict "place" "server.policyRepo.url" "name" "SYNC_POLICY_REPO_URL" "text" $values.server.policyRepo.url "part" "server") -}}
{{- range $name := list "server" "client" -}}
{{- $part := index $values $name -}}
{{- range $setting, $value := $part.settings -}}
{{- $place := printf "%s.settings.%s" $name $setting -}}
{{- if has $setting (index $known.secrets $name) -}}
{{- fail (printf "\n\n%s is a secret, and values are readable: put it into a Secret, and name that in %s.secretSettings as { setting: %s, secret: <its name>, key: <its key> }.\n" $place $name $setting) -}}
{{- end -}}
{{- with get (index $known.owned $name) $setting -}}
{{- fail (printf "\n\n%s is what the chart sets itself: %s.\n" $place .) -}}
{{- end -}}
{{- $text := include "policysync.value" (dict "name" $setting "value" $value "separators" $known.separators) -}}
{{- include "policysync.noPassword" (dict "place" $place "name" $setting "text" $text "part" $name) -}}
{{- end -}}
{{- range $part.extraEnv -}}
{{- include "policysync.noPassword" (dict "place" (printf "%s in %s.extraEnv" .name $name) "name" .name "text" (default "" .value) "part" $name) -}}
{{- if and (has .name (index $known.secrets $name)) .value (not (hasPrefix "/" (toString .value))) -}}
{{- fail (printf "\n\n%s in %s.extraEnv is a secret, and values are readable: put it into a Secret, and name that in %s.secretSettings, or in valueFrom.secretKeyRef.\n" .name $name $name) -}}
{{- end -}}
{{- end -}}
{{- range $part.secretSettings -}}
{{- if has .setting (index $made $name) -}}
{{- fail (printf "\n\n%s.secretSettings names %s, which the chart takes from an existingSecret: leave it out.\n" $name .setting) -}}
{{- end -}}
{{- end -}}
{{- if and $part.enabled $part.serviceMonitor.enabled $values.authentication.enabled (not $part.serviceMonitor.tokenSecret.name) (ne (toString $part.settings.SYNC_METRICS_ACCESS) "everyone") -}}
{{- fail (printf "\n\nWith authentication /metrics needs a token: name a secret in %s.serviceMonitor.tokenSecret, or set %s.settings.SYNC_METRICS_ACCESS=everyone.\n" $name $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Ends the rendering where a value has a password or a token inside. Called with (dict "place" "name" "text" "part"). */}}
{{- define "policysync.noPassword" -}}
{{- if regexMatch `://[^/@:\s"]*:[^/@\s"]+@|(?i:"(authorization|proxy-authorization|cookie|x-api-key|private-token)"\s*:)` (toString .text) -}}
{{- fail (printf "\n\n%s has a password or a token inside, and values are readable: put the whole value into a Secret, and name it in %s.extraEnv as { name: %s, valueFrom: { secretKeyRef: { name: <its name>, key: <its key> } } }.\n" .place .part .name) -}}
{{- end -}}
{{- end -}}
