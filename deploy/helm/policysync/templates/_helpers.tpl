{{- define "policysync.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 45 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 45 characters: with -server 52, to which a StatefulSet adds the hash of a revision in a label of 63. */}}
{{- define "policysync.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 45 | trimSuffix "-" -}}
{{- else if contains (include "policysync.name" .) .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "policysync.name" .) | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "policysync.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "policysync.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Labels that select pods. Called with (dict "root" . "component" "server"). */}}
{{- define "policysync.selector" -}}
app.kubernetes.io/name: {{ include "policysync.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "policysync.labels" -}}
{{ include "policysync.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: policysync
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Called with (dict "root" . "repository" "policysync/server" "digest" ""). */}}
{{- define "policysync.image" -}}
{{- $registry := .root.Values.image.registry | trimSuffix "/" -}}
{{- $name := ternary .repository (printf "%s/%s" $registry .repository) (empty $registry) -}}
{{- if .digest -}}
{{- printf "%s@%s" $name .digest -}}
{{- else -}}
{{- printf "%s:%s" $name (default .root.Chart.AppVersion .root.Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* What is the same for the pods of servers and clients. Called with (dict "root" . "values" .Values.server). */}}
{{- define "policysync.pod" -}}
serviceAccountName: {{ include "policysync.serviceAccount" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "policysync.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Where the file of a secret setting is. */}}
{{- define "policysync.secretFolder" -}}
/run/secrets/policysync
{{- end -}}

{{/* A scalar as text: 16777216 rather than 1.6777216e+07. */}}
{{- define "policysync.scalar" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}
{{- printf "%.0f" . -}}
{{- else -}}
{{- toString . -}}
{{- end -}}
{{- end -}}

{{/*
The value of a setting as text. Called with (dict "name" NAME "value" value "separators" map). A list is one as its setting has it,
labels are pairs, other lists and maps are JSON.
*/}}
{{- define "policysync.value" -}}
{{- $value := .value -}}
{{- $separator := get .separators .name -}}
{{- if and $separator (kindIs "map" .value) -}}
{{- $value = list -}}
{{- range $key, $one := .value -}}
{{- $value = append $value (printf "%s=%s" $key (include "policysync.scalar" $one)) -}}
{{- end -}}
{{- end -}}
{{- if and $separator (kindIs "slice" $value) -}}
{{- $items := list -}}
{{- range $value -}}
{{- $items = append $items (include "policysync.scalar" .) -}}
{{- end -}}
{{- join $separator $items -}}
{{- else if or (kindIs "slice" $value) (kindIs "map" $value) -}}
{{- toJson $value -}}
{{- else -}}
{{- include "policysync.scalar" $value -}}
{{- end -}}
{{- end -}}

{{/*
Environment of settings. Called with (dict "settings" (dict NAME value ...) "secrets" (list (dict "setting" "secret" "key") ...) "extraEnv" list).
A secret setting is a file, which NAME_FILE names.
*/}}
{{- define "policysync.env" -}}
{{- $separators := (include "policysync.settings" . | fromJson).separators -}}
{{- range $name, $value := .settings }}
- name: {{ $name }}
  value: {{ include "policysync.value" (dict "name" $name "value" $value "separators" $separators) | quote }}
{{- end }}
{{- range .secrets }}
- name: {{ .setting }}_FILE
  value: {{ include "policysync.secretFolder" . }}/{{ .setting }}
{{- end }}
{{- with .extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The volume with the files of secret settings. */}}
{{- define "policysync.secretVolume" -}}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      {{- range . }}
      - secret:
          name: {{ .secret }}
          items:
            - { key: {{ .key | quote }}, path: {{ .setting }} }
      {{- end }}
{{- end -}}

{{/* A probe: by HTTP, or inside the container where callers have to present a certificate. Dict: path, port, scheme, command. */}}
{{- define "policysync.probe" -}}
{{- if .command -}}
exec:
  command: {{ toJson .command }}
{{- else -}}
httpGet:
  path: {{ .path }}
  port: {{ .port }}
  scheme: {{ .scheme }}
  httpHeaders:
    - { name: Host, value: localhost }
{{- end -}}
{{- end -}}

{{- define "policysync.serverUrl" -}}
{{- $scheme := ternary "http" "https" (empty .Values.server.tls.existingSecret) -}}
{{- default (printf "%s://%s-server.%s.svc:%v" $scheme (include "policysync.fullname" .) .Release.Namespace .Values.server.service.port) .Values.client.serverUrl -}}
{{- end -}}
