"""The query service: tenants register small standing queries in SQL over HTTP; one Spark application answers all of them.

What is asked is in `headgate.sql`, where it runs in `headgate.hosting`, how on Spark in `headgate.service.batch.serving`. Here is what
a service needs besides: who may do what (`tenants`), what is known (`registry`), the doors (`app`, `client`, `page.html`) and
the process (`run`).
"""
