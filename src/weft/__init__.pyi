from weft import sync as sync
from weft.client import Client as Client
from weft.client import ClientTls as ClientTls
from weft.client import Hooks as Hooks
from weft.client import Options as Options
from weft.client import TlsFiles as TlsFiles
from weft.client import connect as connect

__version__: str
