"""Export: sessions as archives, copies in other stores, and evidence in the records of Agent Context."""
