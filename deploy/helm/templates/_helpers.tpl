{{- define "labels" -}}
app.kubernetes.io/name: rollup-node
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
