{{- define "headgate.name" -}}
{{- printf "%s" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- define "headgate.selector" -}}
app.kubernetes.io/name: headgate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}
{{- define "headgate.labels" -}}
{{ include "headgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}
{{- define "headgate.account" -}}
{{- .Values.serviceAccount.name | default (include "headgate.name" .) -}}
{{- end -}}
{{- define "headgate.tokenSecret" -}}
{{- .Values.adminToken.existingSecret | default (printf "%s-token" (include "headgate.name" .)) -}}
{{- end -}}
{{- define "headgate.isUrl" -}}
{{- if contains "://" .Values.state }}yes{{ end -}}
{{- end -}}
