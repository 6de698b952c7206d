{{/* What all objects have. */}}
{{- define "wakelog.labels" -}}
app.kubernetes.io/name: wakelog
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "wakelog.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "wakelog.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "wakelog.probes" -}}
startupProbe:
  httpGet: {path: /health/live, port: metrics}
  periodSeconds: 5
  failureThreshold: 120
livenessProbe:
  httpGet: {path: /health/live, port: metrics}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /health/ready, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end }}

{{- define "wakelog.nameServers" -}}
{{- $name := .Release.Name -}}
{{- $namespace := .Release.Namespace -}}
{{- range $i, $_ := until (int .Values.nameServers) }}{{ if $i }};{{ end }}{{ $name }}-nameserver-{{ $i }}.{{ $name }}-nameserver.{{ $namespace }}.svc:9876{{ end }}
{{- end }}

{{/* Settings of who may do what, for brokers and name servers. */}}
{{- define "wakelog.access" -}}
- --set
- wakelog.trustedAddresses={{ .Values.trustedAddresses }}
{{- if .Values.accounts.secretName }}
- --set
- aclEnable=true
- --set
- rocketmqHome=/etc/wakelog/home
{{- end }}
{{- if .Values.tls.secretName }}
- --set
- tls.server.mode={{ .Values.tls.mode }}
- --set
- tls.test.mode.enable=false
- --set
- tls.server.certPath=/etc/wakelog/tls/tls.crt
- --set
- tls.server.keyPath=/etc/wakelog/tls/tls.key
{{- end }}
{{- end }}

{{- define "wakelog.mounts" -}}
- {name: store, mountPath: /store}
- {name: temporary, mountPath: /tmp}
- {name: memory, mountPath: /dev/shm}
{{- if .Values.accounts.secretName }}
- {name: accounts, mountPath: /etc/wakelog/home/conf, readOnly: true}
{{- end }}
{{- if .Values.tls.secretName }}
- {name: tls, mountPath: /etc/wakelog/tls, readOnly: true}
{{- end }}
{{- end }}

{{- define "wakelog.volumes" -}}
- name: temporary
  emptyDir: {}
- name: memory
  emptyDir: {medium: Memory, sizeLimit: {{ .Values.sharedMemory }}}
{{- if .Values.accounts.secretName }}
- name: accounts
  secret: {secretName: {{ .Values.accounts.secretName }}, defaultMode: 0440}
{{- end }}
{{- if .Values.tls.secretName }}
- name: tls
  secret: {secretName: {{ .Values.tls.secretName }}, defaultMode: 0440}
{{- end }}
{{- end }}
