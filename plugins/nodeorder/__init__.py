"""kube-scheduler's scores, weighted and added up as in Volcano's nodeorder."""
