"""Results on their way out: standing orders to send them to Kafka, to a table or to a webhook, and queries over them.

Every place gets each result in order, from a durable cursor on, and at its own pace: batches never wait for a delivery.
"""
