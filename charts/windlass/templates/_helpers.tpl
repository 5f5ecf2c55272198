{{- define "windlass.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "windlass.labels" -}}
app.kubernetes.io/name: windlass
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "windlass.selector" -}}
app.kubernetes.io/name: windlass
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "windlass.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "windlass.name" .) }}
{{- end }}

{{- define "windlass.image" -}}
{{- with .Values.image -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ with .digest }}@{{ . }}{{ end }}
{{- end -}}
{{- end }}

{{- /* The Manager's spec: what the chart sets, with the fields of the values over it. */ -}}
{{- define "windlass.manager" -}}
{{- $own := dict
  "local" (dict "inCluster" true)
  "leaderElection" (dict "enabled" true "namespace" .Release.Namespace "name" (include "windlass.name" .))
  "admin" (dict
    "address" (printf "0.0.0.0:%v" .Values.ports.api)
    "probeAddress" (printf "0.0.0.0:%v" .Values.ports.probes)
    "metricsAddress" (printf "0.0.0.0:%v" .Values.ports.metrics)
    "authentication" "TokenReview") -}}
{{ mergeOverwrite $own .Values.manager | toYaml }}
{{- end }}

{{- /* How many processes the PodDisruptionBudget keeps. A share is rounded up, as Kubernetes does. */ -}}
{{- define "windlass.kept" -}}
{{- $least := toString .Values.podDisruptionBudget.minAvailable -}}
{{- if hasSuffix "%" $least -}}
{{- div (add (mul (trimSuffix "%" $least | atoi) (int .Values.replicas)) 99) 100 -}}
{{- else -}}
{{- $least -}}
{{- end -}}
{{- end }}
