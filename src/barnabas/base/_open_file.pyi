from barnabas.base.open_file import OpenFile as OpenFile
