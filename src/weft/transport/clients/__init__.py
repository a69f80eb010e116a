"""The gRPC services for clients and operators, on the port of a node.

service.py    which code serves which method;  admitting.py  who makes a call
publish.py, subscribe.py  the two streams;  queries.py  single requests;  admin.py  requests of operators
values.py     messages to values and back;  failing.py  how a call fails as a whole
"""
