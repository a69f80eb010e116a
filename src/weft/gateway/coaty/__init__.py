"""Coaty joined to the mesh: a node becomes an agent of a namespace and brings events over, both ways (COA-12).

- In: events of the namespace appear on ``coaty.<namespace>.<event>[.<filter>]``, payload as it was.
- Out: what is published there by others reaches the agents; what agents of one island said reaches those of others.
- Questions of mesh clients get their answers, by correlation id; so do those of agents that mesh clients answer.
- ``coaty.<namespace>.objects`` is compacted: what was advertised and not deadvertised, by object id.
- Several nodes may be bridges to one namespace: ``sharing`` says who brings over what, ``memory`` what was already.
- ``learning`` says which topics are listened to: those that agents announce, here and at other bridges.
"""
