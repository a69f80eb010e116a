"""The gRPC services for clients and operators, on the port of a node.

service.py    which method is served by what;  admitting.py  who calls
publish.py, subscribe.py  the two streams;  queries.py  what is asked once;  admin.py  what operators ask
values.py     messages as values and back;  failing.py  how a call fails as a whole
"""
