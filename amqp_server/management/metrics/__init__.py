"""Pages of metrics for Prometheus, with RabbitMQ's names beside our own.

`family` says what a metric is, `families/` has the tables of all of them, `object_sets` says which
objects have values with which labels, `object_lines` writes their text and `collector` that of the
broker, `pages` says what is on each page, `page_query` reads its address and `page_server` answers
a request.
"""
